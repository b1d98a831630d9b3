{{/* Names have at most 63 characters, the limit of a DNS label. */}}

{{/* The app name, for labels. */}}
{{- define "memcached.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The object name: release name plus chart name, unless it already contains it. */}}
{{- define "memcached.fullname" -}}
{{- $name := include "memcached.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Selector labels of the Deployment and Service; they must not change within a release. */}}
{{- define "memcached.selectorLabels" -}}
app.kubernetes.io/name: {{ include "memcached.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "memcached.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "memcached.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The pods' ServiceAccount. */}}
{{- define "memcached.serviceAccountName" -}}
{{- $fallback := ternary (include "memcached.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $fallback -}}
{{- end -}}

{{/* The image with its tag. */}}
{{- define "memcached.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "%s-alpine" .Chart.AppVersion)) -}}
{{- end -}}
