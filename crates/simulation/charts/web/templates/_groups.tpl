{{- /* Puts an object into a group, which comes after another one, where the chart has an order: (list . GROUP AFTER). */ -}}
{{- define "group" }}
{{- if (index . 0).Values.ordered }}
    helm.sh/resource-group: {{ index . 1 }}
{{- with index . 2 }}
    helm.sh/depends-on/resource-groups: '["{{ . }}"]'
{{- end }}
{{- end }}
{{- end }}

{{- define "annotations" }}
{{- if (index . 0).Values.ordered }}
  annotations:
{{- include "group" . }}
{{- end }}
{{- end }}
