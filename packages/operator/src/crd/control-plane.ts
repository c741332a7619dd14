import type {
  V1Affinity,
  V1Container,
  V1DeploymentStrategy,
  V1EnvFromSource,
  V1PodSecurityContext,
  V1PolicyRule,
  V1ResourceRequirements,
  V1SecurityContext,
  V1Toleration,
  V1TopologySpreadConstraint,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import type { Static } from 'typebox';
import type { KubeObject } from '../kube/types.ts';
import type { CustomResource } from './manifest.ts';
import { extraArgs, extraEnv, imagePullSecrets, service } from './parts.ts';
import {
  conditions,
  flag,
  list,
  object,
  optional,
  podField,
  podFields,
  secretKey,
  text,
  texts,
  whole,
} from './schema.ts';

const probe = (description: string) =>
  object(description, {
    enabled: optional(flag('Whether the pods have the probe.')),
    initialDelaySeconds: optional(whole('Wait before the first probe, in seconds.', { minimum: 0 })),
    periodSeconds: optional(whole('Time between two probes, in seconds.', { minimum: 1 })),
    timeoutSeconds: optional(whole('How long a probe may take, in seconds.', { minimum: 1 })),
    successThreshold: optional(whole('Successes after which the pod counts as healthy.', { minimum: 1 })),
    failureThreshold: optional(whole('Failures after which the pod counts as unhealthy.', { minimum: 1 })),
  });

const ingress = object('An Ingress. It needs an ingress controller in the cluster.', {
  className: optional(text('Class of the Ingress. Default: that of the cluster.')),
  host: text('Host name of the server.', { minLength: 1, maxLength: 253 }),
  wildcardHost: optional(text('Host name of workspace apps, such as `*.apps.example.com`.', { maxLength: 253 })),
  annotations: optional(texts('Annotations of the Ingress.')),
  tls: optional(
    object('TLS at the Ingress.', {
      secretName: optional(text('Secret with the certificate of `host`.')),
      wildcardSecretName: optional(text('Secret with the certificate of `wildcardHost`.')),
    }),
  ),
});

const gateway = object('An HTTPRoute. It needs the Gateway API in the cluster.', {
  host: text('Host name of the server.', { minLength: 1, maxLength: 253 }),
  wildcardHost: optional(text('Host name of workspace apps, such as `*.apps.example.com`.', { maxLength: 253 })),
  parentRefs: list(
    'Gateways that the route attaches to.',
    object('A Gateway.', {
      name: text('Name of the Gateway.', { minLength: 1 }),
      namespace: optional(text('Namespace of the Gateway. Default: the one of this object.')),
      sectionName: optional(text('Listener of the Gateway.')),
    }),
    { minItems: 1, maxItems: 16 },
  ),
});

const postgres = object(
  'The database. Without it, and without `CODER_PG_CONNECTION_URL` in `extraEnv` or `envFrom`, the server runs its bundled one.',
  {
    connectionSecretRef: optional(secretKey('Secret with the URL of the database. The default key is `url`.')),
    bundled: optional(
      object('Storage of the bundled database, for trials. Without it, the data is lost with the pod.', {
        storage: text('Size of the volume, such as `10Gi`.', { minLength: 1 }),
        storageClassName: optional(text('Storage class of the volume. Default: that of the cluster.')),
      }),
    ),
  },
  {
    rules: [
      {
        rule: '!(has(self.connectionSecretRef) && has(self.bundled))',
        message: 'set either postgres.connectionSecretRef or postgres.bundled',
      },
    ],
  },
);

const spec = object(
  'The servers to run.',
  {
    image: optional(text('Image of the servers. Default: the image of the operator.')),
    replicas: optional(whole('Number of servers. Default: 1.', { minimum: 0, maximum: 100 })),
    service: optional(service),
    expose: optional(
      object(
        'How people reach the servers from outside the cluster.',
        { ingress: optional(ingress), gateway: optional(gateway) },
        {
          rules: [
            {
              rule: '!(has(self.ingress) && has(self.gateway))',
              message: 'set either expose.ingress or expose.gateway',
            },
          ],
        },
      ),
    ),
    tls: optional(
      object('TLS of the servers themselves.', {
        secretNames: optional(
          list('Secrets with certificates. With one, the servers listen for TLS too.', text('Name of a Secret.'), {
            maxItems: 20,
          }),
        ),
      }),
    ),
    postgres: optional(postgres),
    envUseClusterAccessURL: optional(
      flag(
        'Whether to set `CODER_ACCESS_URL`, where the environment does not: to the host of `expose`, or to the Service. Default: true.',
      ),
    ),
    extraArgs: extraArgs('coder server'),
    extraEnv,
    envFrom: optional(podFields<V1EnvFromSource>('ConfigMaps and Secrets with more environment variables.')),
    imagePullSecrets,
    operatorAccess: optional(
      object("The operator's token for the server.", {
        disabled: optional(flag('Whether to give the operator no token.')),
        generatedTokenSecretName: optional(
          text('Secret to store the token in. Default: `<name>-operator-token`.', { maxLength: 253 }),
        ),
      }),
    ),
    licenseSecretRef: optional(
      secretKey('Accepted for objects of upstream. It has no effect: no feature needs a license.'),
    ),
    serviceAccount: optional(
      object('The service account of the servers.', {
        disableCreate: optional(flag('Whether the account exists already.')),
        name: optional(text('Name of the account. Default: the name of this object.', { maxLength: 253 })),
        annotations: optional(texts('Annotations of the account.')),
        labels: optional(texts('Labels of the account.')),
      }),
    ),
    rbac: optional(
      object(
        'What the built-in provisioner daemons may do in the cluster, for templates that create workspaces as pods.',
        {
          workspacePerms: optional(flag('Whether to create a Role and a RoleBinding. Default: true.')),
          enableDeployments: optional(
            flag('Whether they may manage Deployments, in addition to pods and volume claims. Default: true.'),
          ),
          extraRules: optional(podFields<V1PolicyRule>('More rules for the Role.')),
          workspaceNamespaces: optional(
            list(
              'More namespaces of workspaces. Each needs a ReferenceGrant from CoderControlPlane to Role.',
              text('Name of a namespace.'),
              { maxItems: 50 },
            ),
          ),
        },
      ),
    ),
    resources: optional(podField<V1ResourceRequirements>('CPU and memory of each server.')),
    securityContext: optional(podField<V1SecurityContext>('Security settings of the container.')),
    podSecurityContext: optional(podField<V1PodSecurityContext>('Security settings of the pods.')),
    readinessProbe: optional(probe('When a pod receives requests. On by default.')),
    livenessProbe: optional(probe('When Kubernetes restarts a pod. Off by default.')),
    certs: optional(
      object('Certificate authorities that the servers trust.', {
        secrets: optional(
          list(
            'Secrets with certificates. Each is mounted as `/etc/ssl/certs/<name>.crt`.',
            object('A certificate.', {
              name: text('Name of the Secret.', { minLength: 1 }),
              key: text('Key in the Secret.', { minLength: 1 }),
            }),
            { maxItems: 20 },
          ),
        ),
      }),
    ),
    volumes: optional(podFields<V1Volume>('More volumes.')),
    volumeMounts: optional(podFields<V1VolumeMount>('Mount points of these volumes.')),
    nodeSelector: optional(texts('Labels that a node must have.')),
    tolerations: optional(podFields<V1Toleration>('Taints that the pods tolerate.')),
    affinity: optional(podField<V1Affinity>('Rules for choosing nodes.')),
    topologySpreadConstraints: optional(
      podFields<V1TopologySpreadConstraint>(
        'How the pods spread over nodes. Default with more than one server: over zones and nodes where that is possible.',
      ),
    ),
    strategy: optional(
      podField<V1DeploymentStrategy>(
        'How an update replaces the pods. Default: one after the other, and never fewer than `replicas`. With the bundled database: `Recreate`.',
      ),
    ),
    podDisruptionBudget: optional(
      object('Limits how many servers a node drain stops at the same time. Used with more than one server.', {
        enabled: optional(
          flag(
            'Whether to create it. Default: true. Kubernetes evicts no pod that has two, so disable it if you have your own.',
          ),
        ),
        maxUnavailable: optional(
          whole('How many servers may be stopped at the same time. Default: 1.', { minimum: 0 }),
        ),
      }),
    ),
    podTemplate: optional(
      object('More settings of the pods.', {
        labels: optional(texts('More labels.')),
        annotations: optional(texts('More annotations.')),
        priorityClassName: optional(text('Priority class of the pods.')),
        initContainers: optional(podFields<V1Container>('Containers that run before the server.')),
      }),
    ),
    terminationGracePeriodSeconds: optional(
      whole('How long a stopping server may finish builds, in seconds. Default: 840.', { minimum: 0 }),
    ),
  },
  {
    default: {},
    rules: [
      {
        rule: '!has(self.replicas) || self.replicas <= 1 || !has(self.postgres) || !has(self.postgres.bundled)',
        message: 'more than one server needs a separate database: set postgres.connectionSecretRef',
      },
    ],
  },
);

const status = object('What the operator found and did.', {
  observedGeneration: optional(whole('Generation of the spec that this status is about.')),
  phase: optional(text('`Pending` or `Ready`.')),
  conditions: optional(conditions),
  url: optional(text('URL of the servers in the cluster.')),
  replicas: optional(whole('Number of servers that the spec asks for.')),
  readyReplicas: optional(whole('Number of servers that are ready.')),
  image: optional(text('Image of the servers.')),
  migration: optional(text('Checksum of the image and the database that were migrated last.')),
  operatorTokenSecretRef: optional(secretKey("Where the operator's token is stored.")),
  operatorAccessReady: optional(flag("Whether the server accepts the operator's token.")),
});

export type ControlPlaneSpec = Static<typeof spec>;
export type ControlPlaneStatus = Static<typeof status>;

export interface ControlPlane extends KubeObject {
  spec: ControlPlaneSpec;
  status?: ControlPlaneStatus;
}

export const CONTROL_PLANES: CustomResource = {
  group: 'coder.com',
  version: 'v1alpha1',
  kind: 'CoderControlPlane',
  plural: 'codercontrolplanes',
  description:
    'Runs servers: it brings their database to the schema, starts them and updates them one after the other.',
  spec,
  status,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'URL', type: 'string', jsonPath: '.status.url' },
    { name: 'Image', type: 'string', jsonPath: '.status.image', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
