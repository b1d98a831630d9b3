{{/* Names are cut at 63 characters: what a DNS label may have. */}}

{{/* The name in labels. */}}
{{- define "memcached.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects: the release's, with the chart's unless it is in there already. */}}
{{- define "memcached.fullname" -}}
{{- $name := include "memcached.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What a Service or a Deployment finds its pods by; never changes within a release. */}}
{{- define "memcached.selectorLabels" -}}
app.kubernetes.io/name: {{ include "memcached.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "memcached.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "memcached.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The account that the pods run as. */}}
{{- define "memcached.serviceAccountName" -}}
{{- $fallback := ternary (include "memcached.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $fallback -}}
{{- end -}}

{{/* The image, with its tag. */}}
{{- define "memcached.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "%s-alpine" .Chart.AppVersion)) -}}
{{- end -}}
