{{- define "operator.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 54 | trimSuffix "-" }}
{{- end }}

{{/* The name of objects in the release's namespace. Suffixes of up to 9 characters fit. */}}
{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else if contains (include "operator.name" .) .Release.Name -}}
{{ .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "operator.name" .) | trunc 54 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* The name of objects without a namespace: releases of one name in two namespaces do not meet. */}}
{{- define "operator.clusterName" -}}
{{ .Release.Namespace }}-{{ include "operator.fullname" . }}
{{- end }}

{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "operator.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "operator.image" -}}
{{- $repository := required "no image is published yet: build one with `make docker-build-base BASE_IMG=…`, push it, and set image.repository" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* The text of watches.yaml; empty if the image has it. */}}
{{- define "operator.watches" -}}
{{- if kindIs "string" .Values.watches -}}
{{ .Values.watches }}
{{- else if .Values.watches -}}
{{ toYaml .Values.watches }}
{{- end -}}
{{- end }}

{{- define "operator.webhookName" -}}
{{ default (printf "%s-webhook" (include "operator.fullname" .)) .Values.webhooks.name }}
{{- end }}

{{/* Whether the operator asks the API server who sends a token, and what the sender may do. */}}
{{- define "operator.reviewsTokens" -}}
{{- if or .Values.web.enabled (and .Values.metrics.enabled .Values.metrics.requireRBAC) }}true{{ end -}}
{{- end }}

{{/* The rules of all roles of one kind in rbac.generated, as a YAML list in `rules`. */}}
{{- define "operator.generatedRules" -}}
{{- $rules := list -}}
{{- range $name, $file := .root.Values.rbac.generated -}}
{{- range regexSplit "(?m)^---\\s*$" $file -1 -}}
{{- $object := fromYaml . -}}
{{- with $object.Error }}{{ fail (printf "rbac.generated.%s is not YAML: %s" $name .) }}{{ end -}}
{{- if eq (toString $object.kind) $.kind -}}
{{- range $object.rules }}{{ $rules = append $rules . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toYaml (dict "rules" $rules) }}
{{- end }}

{{/* Release records: with rbac.recordNamespaces, only there. */}}
{{- define "operator.recordRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}

{{/* What the operator may do wherever it serves resources. */}}
{{- define "operator.servingRules" -}}
{{- if not .Values.rbac.recordNamespaces }}
# Release records.
{{ include "operator.recordRules" . }}
{{- end }}
{{- if .Values.rbac.diagnose }}
# What says why an object is not ready.
- apiGroups: [""]
  resources: [pods, events]
  verbs: [list]
{{- end }}
# Events about custom resources.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- with (include "operator.generatedRules" (dict "root" . "kind" "ClusterRole") | fromYaml).rules }}
# rbac.generated
{{ toYaml . }}
{{- end }}
{{- with .Values.rbac.rules }}
# rbac.rules
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* How many processes run: shards, or replicas of which one works. */}}
{{- define "operator.replicas" -}}
{{ .Values.shards | default .Values.replicas }}
{{- end }}

{{/* The ring that the shards belong to. Labels have its name, so it has at most 63 characters; a longer one ends with a digest. */}}
{{- define "operator.ring" -}}
{{- $name := include "operator.clusterName" . -}}
{{- if gt (len $name) 63 -}}
{{- $name = printf "%s-%s" (trunc 54 $name) (sha256sum $name | trunc 8) -}}
{{- end -}}
{{ default $name .Values.controllerRing.name }}
{{- end }}
