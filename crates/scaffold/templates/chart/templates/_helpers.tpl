{{/* Names have at most 63 characters, the limit of a DNS label. */}}

{{/* The app name, for labels. */}}
{{- define "__name__.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The object name: release name plus chart name, unless it already contains it. */}}
{{- define "__name__.fullname" -}}
{{- $name := include "__name__.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Selector labels of the Deployment and Service; they must not change within a release. */}}
{{- define "__name__.selectorLabels" -}}
app.kubernetes.io/name: {{ include "__name__.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "__name__.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "__name__.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The pods' ServiceAccount. */}}
{{- define "__name__.serviceAccountName" -}}
{{- $fallback := ternary (include "__name__.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $fallback -}}
{{- end -}}

{{/* The image with its tag. */}}
{{- define "__name__.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
