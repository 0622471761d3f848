{{/* Name of the application in labels. */}}
{{- define "kerf.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of the objects: the release's, followed by the chart's unless it contains that. */}}
{{- define "kerf.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels that select the pods. */}}
{{- define "kerf.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kerf.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "kerf.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "kerf.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of every object, merged with those of one object: a list of the root context and a map. */}}
{{- define "kerf.annotations" -}}
{{- $all := merge (dict) (index . 1 | default dict) ((index . 0).Values.additionalAnnotations | default dict) }}
{{- with $all }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kerf.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kerf.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kerf.image" -}}
{{- with .Values.controller.image }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- with .digest }}@{{ . }}{{ end }}
{{- end }}
{{- end }}

{{- define "kerf.subject" -}}
- kind: ServiceAccount
  name: {{ include "kerf.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* Adds the pods' labels to a map without labelSelector: a list of the root context and the map. */}}
{{- define "kerf.selectPods" -}}
{{- $target := index . 1 }}
{{- if not (hasKey $target "labelSelector") }}
{{- $_ := set $target "labelSelector" (dict "matchLabels" (include "kerf.selectorLabels" (index . 0) | fromYaml)) }}
{{- end }}
{{- end }}

{{/* Name of the provider: the one named, else aws if there is a name of the cluster. */}}
{{- define "kerf.provider" -}}
{{- if .Values.settings.cloudProvider }}
{{- .Values.settings.cloudProvider }}
{{- else if .Values.settings.clusterName -}}
aws
{{- else -}}
kwok
{{- end }}
{{- end }}
