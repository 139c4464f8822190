{{- define "tocsin.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tocsin.labels" -}}
app.kubernetes.io/name: tocsin
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "tocsin.metadata" -}}
labels:
  {{- include "tocsin.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "tocsin.secret" -}}
{{- required "existingSecret: name a Secret with the keys cluster-api-token, coordinator-api-token, viewer-token and broker-token" .Values.existingSecret -}}
{{- end -}}

{{/* An environment variable from the Secret: (dict "root" $ "name" … "key" …). */}}
{{- define "tocsin.fromSecret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "tocsin.secret" .root }}
      key: {{ .key }}
{{- end -}}

{{/* What all pods have in common: (dict "root" $ "values" .Values.cluster). */}}
{{- define "tocsin.pod" -}}
# Otherwise Kubernetes sets variables such as TOCSIN_CLUSTER_PORT for services, which Tocsin would read as settings.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "tocsin.container" -}}
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml .values.resources | nindent 2 }}
{{- end -}}

{{- define "tocsin.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  failureThreshold: 90
livenessProbe:
  httpGet: {path: {{ .live | default "/healthz" }}, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 3
  timeoutSeconds: 3
{{- end -}}

{{/* (dict "storage" .Values.cluster.storage) */}}
{{- define "tocsin.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .storage.className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .storage.size }}}}
{{- end -}}
