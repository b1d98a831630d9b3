{{- define "broken.name" -}}
{{ .Values.names.first.text }}
{{- end }}
