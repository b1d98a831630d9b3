{{/* Where the container finds watches.yaml, certificates and charts. */}}
{{- define "operator.mounts" -}}
{{- if include "operator.watches" . }}
- {name: watches, mountPath: /etc/hybrid-helm-operator/watches.yaml, subPath: watches.yaml, readOnly: true}
{{- end }}
{{- range $name, $secret := include "operator.certificates" . | fromYaml }}
- {name: {{ $name }}-certificate, mountPath: /etc/hybrid-helm-operator/{{ $name }}, readOnly: true}
{{- end }}
{{- if .Values.chartCache.enabled }}
- {name: chart-cache, mountPath: /var/cache/hybrid-helm-operator}
{{- end }}
{{- range $name, $source := .Values.chartVolumes }}
- {name: chart-{{ $name }}, mountPath: /charts/{{ $name }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "operator.volumes" -}}
{{- if include "operator.watches" . }}
- name: watches
  configMap:
    name: {{ include "operator.fullname" . }}-watches
{{- end }}
{{- range $name, $secret := include "operator.certificates" . | fromYaml }}
- name: {{ $name }}-certificate
  secret:
    secretName: {{ $secret }}
{{- end }}
{{- if .Values.chartCache.enabled }}
- name: chart-cache
  {{- if .Values.chartCache.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .Values.chartCache.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.chartCache.sizeLimit }}
  {{- end }}
{{- end }}
{{- range $name, $source := .Values.chartVolumes }}
- name: chart-{{ $name }}
  {{- toYaml $source | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secret of each server that has a certificate of its own. */}}
{{- define "operator.certificates" -}}
{{- $found := dict -}}
{{- range list "metrics" "web" "webhooks" -}}
{{- $server := index $.Values . -}}
{{- if and $server.enabled $server.certSecret }}{{ $found = set $found . $server.certSecret }}{{ end -}}
{{- end -}}
{{ toYaml $found }}
{{- end }}
