// The pods of a control plane: its servers, and the Job that migrates their database.
import type {
  V1Container,
  V1EnvVar,
  V1PodSpec,
  V1PodTemplateSpec,
  V1Probe,
  V1TopologySpreadConstraint,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import type { ControlPlane, ControlPlaneSpec } from '../crd/control-plane.ts';
import type { Deployment, Job } from '../kube/objects.ts';
import { sha256 } from '../machinery/apply.ts';
import { accountName, clusterUrl, dataClaimName, hasTls, owned, tokenSecretOf } from './names.ts';

/** Where the program is in the image. */
const PROGRAM = '/opt/coder';
const HTTP_PORT = 8080;
const HTTPS_PORT = 8443;
const TLS_FOLDER = '/etc/ssl/certs/coder';
/** The settings and the bundled database are below it. */
const HOME = '/home/coder';
/** The server waits 10 minutes for running builds, and 4 minutes are for the preStop hook and builds that it then cancels. */
const GRACE_SECONDS = 840;
/**
 * How long a new server is ready before the next one is replaced: meanwhile the agents, daemons and clients of the stopped
 * one connect to others. Kubernetes does not wait until the stopped one has ended.
 */
const MIN_READY_SECONDS = 15;
/** How long an ended Job stays for its logs. */
const JOB_KEPT_SECONDS = 3_600;
const DATABASE = 'CODER_PG_CONNECTION_URL';

const SECURITY: NonNullable<ControlPlaneSpec['securityContext']> = {
  runAsNonRoot: true,
  runAsUser: 1000,
  runAsGroup: 1000,
  allowPrivilegeEscalation: false,
  seccompProfile: { type: 'RuntimeDefault' },
};

/** What the pods need in addition to the spec. */
export interface Runtime {
  image: string;
  /** Checksum of the operator's token, so that another token replaces the pods. */
  tokenChecksum: string | undefined;
}

/** Whether the servers have their own database. With variables from elsewhere, it may be named there. */
export function hasDatabase({ spec }: ControlPlane): boolean {
  if (spec.postgres?.bundled) return false;
  return (
    spec.postgres?.connectionSecretRef !== undefined ||
    (spec.extraEnv ?? []).some(({ name }) => name === DATABASE) ||
    (spec.envFrom ?? []).length > 0
  );
}

/** Which migration the servers need: another image or database means another one. */
export function migrationOf({ spec }: ControlPlane, image: string): string {
  const { postgres, extraEnv = [], envFrom } = spec;
  return sha256({ image, postgres, envFrom, env: extraEnv.filter(({ name }) => name.startsWith('CODER_PG_')) }).slice(
    0,
    16,
  );
}

/** The environment. Variables of the spec replace the operator's: a name may appear once. */
function environment(plane: ControlPlane): V1EnvVar[] {
  const { spec } = plane;
  const given = spec.extraEnv ?? [];
  const secret = spec.postgres?.connectionSecretRef;
  const token = tokenSecretOf(plane);
  const files = (file: string) => spec.tls!.secretNames!.map((name) => `${TLS_FOLDER}/${name}/${file}`).join(',');
  const own: V1EnvVar[] = [
    { name: 'CODER_HTTP_ADDRESS', value: `0.0.0.0:${HTTP_PORT}` },
    { name: 'CODER_PROMETHEUS_ADDRESS', value: '0.0.0.0:2112' },
    { name: 'CODER_PPROF_ADDRESS', value: '0.0.0.0:6060' },
    { name: 'KUBE_POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } },
    // where the other servers reach this one
    { name: 'CODER_DERP_SERVER_RELAY_URL', value: `http://$(KUBE_POD_IP):${HTTP_PORT}` },
    ...(secret
      ? [{ name: DATABASE, valueFrom: { secretKeyRef: { name: secret.name, key: secret.key || 'url' } } }]
      : []),
    ...(token ? [{ name: 'CODER_OPERATOR_TOKEN', valueFrom: { secretKeyRef: token } }] : []),
    ...(hasTls(plane)
      ? [
          { name: 'CODER_TLS_ENABLE', value: 'true' },
          { name: 'CODER_TLS_ADDRESS', value: `0.0.0.0:${HTTPS_PORT}` },
          { name: 'CODER_TLS_CERT_FILE', value: files('tls.crt') },
          { name: 'CODER_TLS_KEY_FILE', value: files('tls.key') },
        ]
      : []),
    // a variable here would take precedence over the same one from a ConfigMap or Secret
    ...(spec.envUseClusterAccessURL === false || (spec.envFrom ?? []).length > 0 ? [] : addresses(plane)),
  ];
  return [...own.filter(({ name }) => !given.some((each) => each.name === name)), ...given];
}

function addresses(plane: ControlPlane): V1EnvVar[] {
  const { ingress, gateway } = plane.spec.expose ?? {};
  const exposed = ingress ?? gateway;
  if (!exposed) return [{ name: 'CODER_ACCESS_URL', value: clusterUrl(plane) }];
  // the listeners of a Gateway are not known here, and nearly all have TLS
  const scheme = gateway || ingress?.tls?.secretName ? 'https' : 'http';
  return [
    { name: 'CODER_ACCESS_URL', value: `${scheme}://${exposed.host}` },
    ...(exposed.wildcardHost ? [{ name: 'CODER_WILDCARD_ACCESS_URL', value: exposed.wildcardHost }] : []),
  ];
}

function volumesOf(plane: ControlPlane): { volumes: V1Volume[]; volumeMounts: V1VolumeMount[] } {
  const { spec } = plane;
  const tls = spec.tls?.secretNames ?? [];
  const certs = spec.certs?.secrets ?? [];
  const data = spec.postgres?.bundled ? [{ name: 'data' }] : [];
  return {
    volumes: [
      ...data.map(({ name }) => ({ name, persistentVolumeClaim: { claimName: dataClaimName(plane) } })),
      ...tls.map((secretName) => ({ name: `tls-${secretName}`, secret: { secretName } })),
      ...certs.map(({ name, key }) => ({
        name: `ca-cert-${name}-${key.replaceAll('.', '-')}`,
        secret: { secretName: name },
      })),
      ...(spec.volumes ?? []),
    ],
    volumeMounts: [
      ...data.map(({ name }) => ({ name, mountPath: HOME })),
      ...tls.map((name) => ({ name: `tls-${name}`, mountPath: `${TLS_FOLDER}/${name}`, readOnly: true })),
      ...certs.map(({ name, key }, at) => ({
        name: `ca-cert-${name}-${key.replaceAll('.', '-')}`,
        // two keys of one Secret need two files
        mountPath: `/etc/ssl/certs/${certs.findIndex((each) => each.name === name) === at ? name : `${name}-${key}`}.crt`,
        subPath: key,
        readOnly: true,
      })),
      ...(spec.volumeMounts ?? []),
    ],
  };
}

function probeOf(probe: ControlPlaneSpec['readinessProbe'], byDefault: boolean, path: string): V1Probe | undefined {
  const { enabled = byDefault, ...timing } = probe ?? {};
  return enabled ? { httpGet: { path, port: 'http' }, ...timing } : undefined;
}

function podSpec(plane: ControlPlane, container: Partial<V1Container>, { image }: Runtime): V1PodSpec {
  const { spec } = plane;
  const { volumes, volumeMounts } = volumesOf(plane);
  return {
    serviceAccountName: accountName(plane),
    containers: [
      {
        name: 'coder',
        image,
        command: [PROGRAM],
        env: environment(plane),
        envFrom: spec.envFrom,
        resources: spec.resources,
        securityContext: spec.securityContext ?? SECURITY,
        volumeMounts,
        ...container,
      },
    ],
    volumes,
    initContainers: spec.podTemplate?.initContainers,
    imagePullSecrets: spec.imagePullSecrets,
    // the volume of the bundled database belongs to this group
    securityContext: spec.podSecurityContext ?? (spec.postgres?.bundled ? { fsGroup: 1000 } : undefined),
    nodeSelector: spec.nodeSelector,
    tolerations: spec.tolerations,
    affinity: spec.affinity,
    topologySpreadConstraints: spec.topologySpreadConstraints,
    priorityClassName: spec.podTemplate?.priorityClassName,
  };
}

/** Whether several servers run at the same time, also apart from updates. */
export const isShared = ({ spec }: ControlPlane): boolean => (spec.replicas ?? 1) > 1;

/** Several servers run in different zones and on different nodes, where that is possible. */
function spread(plane: ControlPlane): V1TopologySpreadConstraint[] | undefined {
  if (!isShared(plane)) return undefined;
  return ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'].map((topologyKey) => ({
    topologyKey,
    maxSkew: 1,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: owned.selectorOf(plane) },
    // during an update, the servers that it replaces do not count
    matchLabelKeys: ['pod-template-hash'],
  }));
}

function podTemplate(plane: ControlPlane, runtime: Runtime): V1PodTemplateSpec {
  const { spec } = plane;
  const { labels, annotations } = spec.podTemplate ?? {};
  const server: Partial<V1Container> = {
    args: ['server', ...(spec.extraArgs ?? [])],
    ports: [
      { name: 'http', containerPort: HTTP_PORT, protocol: 'TCP' },
      ...(hasTls(plane) ? [{ name: 'https', containerPort: HTTPS_PORT, protocol: 'TCP' }] : []),
    ],
    readinessProbe: probeOf(spec.readinessProbe, true, '/readyz'),
    livenessProbe: probeOf(spec.livenessProbe, false, '/healthz'),
    // until no Service or Ingress sends requests here any more
    lifecycle: { preStop: { exec: { command: ['/bin/sh', '-c', 'sleep 5'] } } },
  };
  return {
    metadata: {
      labels: { ...labels, ...owned.labelsOf(plane) },
      annotations: {
        ...annotations,
        ...(runtime.tokenChecksum ? { 'checksum/operator-token': runtime.tokenChecksum } : {}),
      },
    },
    spec: {
      ...podSpec(plane, server, runtime),
      topologySpreadConstraints: spec.topologySpreadConstraints ?? spread(plane),
      terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? GRACE_SECONDS,
    },
  };
}

/** The servers. One after the other is replaced, and two of them never share a bundled database. */
export function deployment(plane: ControlPlane, runtime: Runtime): Deployment {
  return {
    metadata: owned.metaOf(plane, plane.metadata.name),
    spec: {
      replicas: plane.spec.replicas ?? 1,
      selector: { matchLabels: owned.selectorOf(plane) },
      strategy:
        plane.spec.strategy ??
        (hasDatabase(plane)
          ? { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
          : { type: 'Recreate' }),
      ...(isShared(plane) ? { minReadySeconds: MIN_READY_SECONDS } : {}),
      template: podTemplate(plane, runtime),
    },
  };
}

/** Brings the database to the schema of the image. Its pods are not servers: the Service must not select them. */
export function migrationJob(plane: ControlPlane, runtime: Runtime, migration: string): Job {
  const metadata = owned.metaOf(plane, `${plane.metadata.name}-migrate-${migration}`);
  return {
    metadata,
    spec: {
      backoffLimit: 3,
      ttlSecondsAfterFinished: JOB_KEPT_SECONDS,
      template: {
        metadata: {
          labels: { ...metadata.labels, 'app.kubernetes.io/name': 'coder-migration' },
          annotations: plane.spec.podTemplate?.annotations,
        },
        spec: { ...podSpec(plane, { args: ['server', 'migrate'] }, runtime), restartPolicy: 'Never' },
      },
    },
  };
}
