// The objects that the operator creates for a provisioner, as it applies them.
import type { V1Container, V1PodTemplateSpec } from '@kubernetes/client-node';
import type { Provisioner } from '../crd/provisioner.ts';
import type { Deployment, Job, Secret } from '../kube/objects.ts';
import type { KubeObject } from '../kube/types.ts';
import { sha256 } from '../machinery/apply.ts';
import { accountName, deploymentName, keySecretOf, owned } from './names.ts';

/** Where the daemons' program is in the image. */
const PROGRAM = '/opt/coder';
const GRACE_SECONDS = 600;
/** How long an ended Job stays for its logs. */
const JOB_KEPT_SECONDS = 300;
const CHECKSUM = 'checksum/secret';

export function keySecret(provisioner: Provisioner, secret: string, annotations: Record<string, string>): Secret {
  const { name, key } = keySecretOf(provisioner);
  return {
    metadata: { ...owned.metaOf(provisioner, name), annotations },
    type: 'Opaque',
    data: { [key]: Buffer.from(secret).toString('base64') },
  };
}

export const serviceAccount = (provisioner: Provisioner): KubeObject => ({
  metadata: owned.metaOf(provisioner, accountName(provisioner)),
});

/** The namespaces in which the daemons manage workspaces. */
export function workspaceNamespaces({ metadata, spec }: Provisioner): string[] {
  const { enabled, namespaces } = spec.workspacePermissions;
  if (!enabled) return [];
  return namespaces && namespaces.length > 0 ? [...new Set(namespaces)] : [metadata.namespace!];
}

/** What the pods need in addition to the spec. */
export interface Runtime {
  url: string;
  image: string;
  /** Checksum of the key, so that a new key replaces the pods. */
  keyChecksum: string;
}

export const checksumOf = (secret: Secret, key: string): string => sha256(secret.data?.[key] ?? '');

/** The checksum of the key that a pod was made with. */
export const podChecksum = (pod: KubeObject): string | undefined => pod.metadata.annotations?.[CHECKSUM];

function podTemplate(provisioner: Provisioner, runtime: Runtime, more: string[], restart: string): V1PodTemplateSpec {
  const { spec } = provisioner;
  const pod = spec.podTemplate ?? {};
  const { name: secretName, key } = keySecretOf(provisioner);
  const container: V1Container = {
    name: 'provisioner',
    image: runtime.image,
    command: [PROGRAM],
    args: ['provisioner', 'start', ...more, ...(spec.extraArgs ?? [])],
    env: [
      { name: 'CODER_URL', value: runtime.url },
      { name: 'CODER_PROVISIONER_DAEMON_KEY', valueFrom: { secretKeyRef: { name: secretName, key } } },
      {
        name: 'CODER_PROVISIONER_DAEMON_NAME',
        valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } },
      },
      ...(spec.extraEnv ?? []),
    ],
    ...(spec.resources ? { resources: spec.resources } : {}),
    ...(pod.containerSecurityContext ? { securityContext: pod.containerSecurityContext } : {}),
    ...(pod.volumeMounts ? { volumeMounts: pod.volumeMounts } : {}),
  };
  return {
    metadata: {
      labels: { ...pod.labels, ...owned.labelsOf(provisioner) },
      annotations: { ...pod.annotations, [CHECKSUM]: runtime.keyChecksum },
    },
    spec: {
      serviceAccountName: accountName(provisioner),
      terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? GRACE_SECONDS,
      restartPolicy: restart,
      containers: [container],
      ...(pod.initContainers ? { initContainers: pod.initContainers } : {}),
      ...(spec.imagePullSecrets ? { imagePullSecrets: spec.imagePullSecrets } : {}),
      ...(pod.nodeSelector ? { nodeSelector: pod.nodeSelector } : {}),
      ...(pod.tolerations ? { tolerations: pod.tolerations } : {}),
      ...(pod.affinity ? { affinity: pod.affinity } : {}),
      ...(pod.topologySpreadConstraints ? { topologySpreadConstraints: pod.topologySpreadConstraints } : {}),
      ...(pod.priorityClassName ? { priorityClassName: pod.priorityClassName } : {}),
      ...(pod.securityContext ? { securityContext: pod.securityContext } : {}),
      ...(pod.volumes ? { volumes: pod.volumes } : {}),
    },
  };
}

export function deployment(provisioner: Provisioner, runtime: Runtime, replicas: number): Deployment {
  return {
    metadata: owned.metaOf(provisioner, deploymentName(provisioner)),
    spec: {
      replicas,
      selector: { matchLabels: owned.selectorOf(provisioner) },
      template: podTemplate(provisioner, runtime, [], 'Always'),
    },
  };
}

/** A pod for one build. A second pod after a failure could run another build, which nobody counted. */
export function job(provisioner: Provisioner, runtime: Runtime): Job {
  return {
    metadata: owned.metaOf(provisioner, `${provisioner.metadata.name}-${crypto.randomUUID().slice(0, 8)}`),
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: JOB_KEPT_SECONDS,
      template: podTemplate(provisioner, runtime, ['--once'], 'Never'),
    },
  };
}

export function disruptionBudget(provisioner: Provisioner, maxUnavailable: number): KubeObject {
  const budget = { maxUnavailable, selector: { matchLabels: owned.selectorOf(provisioner) } };
  return { metadata: owned.metaOf(provisioner, deploymentName(provisioner)), spec: budget } as KubeObject;
}
