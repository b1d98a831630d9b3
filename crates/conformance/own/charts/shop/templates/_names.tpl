{{- define "shop.name" -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{- end }}
{{- define "shop.labels" -}}
{{ include "base.labels" . }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
