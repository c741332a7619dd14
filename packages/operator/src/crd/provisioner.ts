import type {
  V1Affinity,
  V1Container,
  V1EnvVar,
  V1LocalObjectReference,
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
import {
  choice,
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
  time,
  whole,
} from './schema.ts';

const autoscaling = object(
  'Changes the number of daemons with the queue. `replicas` then has no effect.',
  {
    minReplicas: whole('Minimum number of daemons. Can be 0.', { default: 0, minimum: 0 }),
    maxReplicas: whole('Maximum number of daemons.', { minimum: 1, maximum: 1000 }),
    idleSeconds: whole('Time for which fewer daemons must be enough before the operator removes some, in seconds.', {
      default: 300,
      minimum: 0,
    }),
    mode: choice(
      '`Deployment` runs daemons that take one job after another. `Job` runs each build in a separate pod, which ends after it.',
      ['Deployment', 'Job'],
      { default: 'Deployment' },
    ),
  },
  {
    rules: [
      { rule: 'self.minReplicas <= self.maxReplicas', message: 'minReplicas must not be greater than maxReplicas' },
      {
        rule: "self.mode != 'Job' || self.minReplicas == 0",
        message: 'minReplicas must be 0 in the mode Job: its daemons exist only for a build',
      },
    ],
  },
);

const workspacePermissions = object(
  'What the daemons may do in the cluster, for templates that create workspaces as pods.',
  {
    enabled: flag('Whether to create a Role and a RoleBinding.', { default: true }),
    enableDeployments: flag('Whether they may manage Deployments, in addition to pods and volume claims.', {
      default: true,
    }),
    namespaces: optional(
      list(
        'Namespaces of workspaces. Default: the namespace of this object. Other namespaces need a ReferenceGrant from CoderProvisioner to Role.',
        text('Name of a namespace.'),
        {
          maxItems: 50,
        },
      ),
    ),
    extraRules: optional(podFields<V1PolicyRule>('More rules for the Role.')),
  },
  { default: {} },
);

const podTemplate = object('Settings of the pods of the daemons.', {
  labels: optional(texts('More labels.')),
  annotations: optional(texts('More annotations.')),
  nodeSelector: optional(texts('Labels that a node must have.')),
  tolerations: optional(podFields<V1Toleration>('Taints that the pods tolerate.')),
  affinity: optional(podField<V1Affinity>('Rules for choosing nodes.')),
  topologySpreadConstraints: optional(podFields<V1TopologySpreadConstraint>('How the pods spread over nodes.')),
  priorityClassName: optional(text('Priority class of the pods.')),
  securityContext: optional(podField<V1PodSecurityContext>('Security settings of the pods.')),
  containerSecurityContext: optional(podField<V1SecurityContext>('Security settings of the container.')),
  volumes: optional(podFields<V1Volume>('More volumes, for example a cache of Terraform providers.')),
  volumeMounts: optional(podFields<V1VolumeMount>('Mount points of these volumes.')),
  initContainers: optional(podFields<V1Container>('Containers that run before the daemon.')),
});

const spec = object(
  'The daemons to run.',
  {
    controlPlaneRef: optional(
      object('The CoderControlPlane to join. Either this or `url`.', {
        name: text('Name of the CoderControlPlane.', { minLength: 1 }),
        namespace: optional(
          text('Its namespace, where a ReferenceGrant must permit it. Default: the namespace of this object.', {
            maxLength: 63,
          }),
        ),
      }),
    ),
    url: optional(text('URL of the server to join. Needs `bootstrap`.', { pattern: '^https?://', maxLength: 2048 })),
    bootstrap: optional(
      object('Credentials to create provisioner keys with. Default: those of the CoderControlPlane.', {
        credentialsSecretRef: secretKey(
          'Secret with an API token of a Template Admin or Owner. The default key is `token`.',
        ),
      }),
    ),
    organizationName: optional(text('Organization on the server. Default: `default`.', { maxLength: 128 })),
    tags: optional(texts('Tags of the daemons. They decide which jobs the daemons take.', { maxProperties: 50 })),
    key: optional(
      object('The provisioner key.', {
        name: optional(text('Name of the key on the server. Default: the name of this object.', { maxLength: 128 })),
        secretName: optional(
          text('Secret to store the key in. Default: `<name>-provisioner-key`.', { maxLength: 253 }),
        ),
        secretKey: optional(text('Key in that Secret. Default: `key`.', { maxLength: 253 })),
      }),
    ),
    // without the default, the scale subresource of an object that leaves it out is an error for every scaler
    replicas: optional(
      whole('Number of daemons. Each runs one build at a time.', { default: 1, minimum: 0, maximum: 1000 }),
    ),
    autoscaling: optional(autoscaling),
    image: optional(text('Image of the daemons. Default: the image of the CoderControlPlane.')),
    imagePullSecrets: optional(podFields<V1LocalObjectReference>('Secrets to pull the image with.')),
    extraArgs: optional(list('More arguments of `coder provisioner start`.', text('An argument.'))),
    extraEnv: optional(podFields<V1EnvVar>('More environment variables.')),
    resources: optional(podField<V1ResourceRequirements>('CPU and memory of each daemon.')),
    terminationGracePeriodSeconds: optional(
      whole('How long a stopping daemon may finish its build, in seconds. Default: 600.', { minimum: 0 }),
    ),
    podTemplate: optional(podTemplate),
    workspacePermissions,
    podDisruptionBudget: optional(
      object('Limits how many daemons a node drain stops at the same time.', {
        maxUnavailable: whole('How many daemons may be stopped at the same time.', { default: 1, minimum: 0 }),
      }),
    ),
  },
  {
    rules: [
      {
        rule: 'has(self.controlPlaneRef) != has(self.url)',
        message: 'set either controlPlaneRef or url',
      },
      { rule: '!has(self.url) || has(self.bootstrap)', message: 'url needs bootstrap.credentialsSecretRef' },
      { rule: '!has(self.url) || has(self.image)', message: 'url needs image' },
    ],
  },
);

const status = object('What the operator found and did.', {
  observedGeneration: optional(whole('Generation of the spec that this status is about.')),
  phase: optional(text('`Pending`, `Ready` or `Deleting`.')),
  conditions: optional(conditions),
  replicas: optional(whole('Number of pods.')),
  readyReplicas: optional(whole('Number of daemons that are connected to the server.')),
  selector: optional(text('Label selector of the pods.')),
  organizationID: optional(text('Id of the organization of the key.')),
  organizationName: optional(text('Name of the organization of the key.')),
  provisionerKeyID: optional(text('Id of the key.')),
  provisionerKeyName: optional(text('Name of the key on the server.')),
  tagsHash: optional(text('SHA-256 checksum of the tags of the key.')),
  controlPlaneRefName: optional(text('Name of the CoderControlPlane of the key.')),
  controlPlaneURL: optional(text('URL of the server of the key.')),
  secretRef: optional(secretKey('Where the key is stored.')),
  retiredKeys: optional(
    list(
      'Keys that were replaced. Each is deleted when no daemon uses it.',
      object('A replaced key.', {
        name: text('Name of the key on the server.'),
        id: optional(text('Id of the key.')),
        organizationName: text('Organization of the key.'),
        url: text('URL of its server.'),
      }),
    ),
  ),
  daemons: optional(
    list(
      'Daemons that are registered with this key.',
      object('A daemon.', {
        name: text('Name of the daemon, which is the name of its pod.'),
        status: text('`idle`, `busy` or `offline`.'),
        version: optional(text('Version of the program.')),
      }),
    ),
  ),
  autoscaling: optional(
    object('The state of autoscaling.', {
      pendingJobs: whole('Jobs in the queue that these daemons could take.'),
      desiredReplicas: whole('Number of daemons that the queue needs.'),
      lastScaleTime: optional(time('When the number of daemons changed last.')),
    }),
  ),
});

export type ProvisionerSpec = Static<typeof spec>;
export type ProvisionerStatus = Static<typeof status>;

/** An object of the custom resource CoderProvisioner. */
export interface Provisioner extends KubeObject {
  spec: ProvisionerSpec;
  status?: ProvisionerStatus;
}

export const PROVISIONERS: CustomResource = {
  group: 'coder.com',
  version: 'v1alpha1',
  kind: 'CoderProvisioner',
  plural: 'coderprovisioners',
  description:
    'Runs provisioner daemons for a server: it creates their key, runs them and replaces the key when it must.',
  spec,
  status,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'Replicas', type: 'integer', jsonPath: '.status.replicas' },
    { name: 'Pending', type: 'integer', jsonPath: '.status.autoscaling.pendingJobs', priority: 1 },
    { name: 'Key', type: 'string', jsonPath: '.status.provisionerKeyName', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  scale: {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.selector',
  },
};
