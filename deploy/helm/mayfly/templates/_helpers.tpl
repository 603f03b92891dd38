{{- define "mayfly.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "mayfly.headless" -}}
{{ include "mayfly.name" . }}-nodes
{{- end }}

{{- define "mayfly.selector" -}}
app.kubernetes.io/name: mayfly
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mayfly.labels" -}}
{{ include "mayfly.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "mayfly.secret" -}}
{{ .Values.secret.existingSecret | default (include "mayfly.name" .) }}
{{- end }}

{{- define "mayfly.tlsSecret" -}}
{{- if eq .Values.tls.mode "secret" -}}
{{ required "tls.existingSecret names the Secret with tls.crt, tls.key and ca.crt" .Values.tls.existingSecret }}
{{- else -}}
{{ include "mayfly.name" . }}-tls
{{- end -}}
{{- end }}

{{/* How the node at an ordinal is reached, in its namespace's domain. */}}
{{- define "mayfly.host" -}}
{{ include "mayfly.name" .root }}-{{ .ordinal }}.{{ include "mayfly.headless" .root }}.{{ .root.Release.Namespace }}.svc
{{- end }}

{{- define "mayfly.scheme" -}}
{{ ternary "http" "https" (eq .Values.tls.mode "off") }}
{{- end }}

{{- define "mayfly.clusterId" -}}
{{ .Values.cluster.id | default (printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 32) }}
{{- end }}

{{/* What cannot be true together is told before anything is installed. */}}
{{- define "mayfly.validate" -}}
{{- if not (has .Values.tls.mode (list "secret" "certManager" "off")) -}}
{{- fail (printf "tls.mode is %q; write secret, certManager or off" .Values.tls.mode) -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "off") (not .Values.insecure) -}}
{{- fail "tls.mode is off: nodes and clients would speak plain text; set insecure: true if they shall" -}}
{{- end -}}
{{- if and .Values.insecure (ne .Values.tls.mode "off") -}}
{{- fail "insecure is for tls.mode: off" -}}
{{- end -}}
{{- if lt (int .Values.replicaCount) (int .Values.cluster.founders) -}}
{{- fail (printf "replicaCount is %d, and the cluster was founded by %d nodes: these stay" (int .Values.replicaCount) (int .Values.cluster.founders)) -}}
{{- end -}}
{{- if lt (int .Values.cluster.founders) 1 -}}
{{- fail "cluster.founders is 1 or more" -}}
{{- end -}}
{{- if not (has .Values.antiAffinity (list "soft" "hard")) -}}
{{- fail (printf "antiAffinity is %q; write soft or hard" .Values.antiAffinity) -}}
{{- end -}}
{{- with regexFind "(?m)^\\s*\\[+\\s*(node|listen|cluster|security|tls)\\b" .Values.config -}}
{{- fail (printf "config: %s…] is written by the chart" (trim .)) -}}
{{- end -}}
{{- end }}
