import type { Static } from 'typebox';
import type { KubeObject } from '../kube/types.ts';
import type { CustomResource } from './manifest.ts';
import { extraArgs, extraEnv, imagePullSecrets, service } from './parts.ts';
import { conditions, flag, object, optional, secretKey, text, whole } from './schema.ts';

const url = { pattern: '^https?://', maxLength: 2048 };

const spec = object(
  'The workspace proxies to run.',
  {
    image: optional(text('Image of the proxies. Default: the image of the operator.')),
    replicas: optional(whole('Number of pods. Default: 1.', { minimum: 0, maximum: 100 })),
    service: optional(service),
    primaryAccessURL: optional(text('Access URL of the server. Default: `bootstrap.coderURL`.', url)),
    proxySessionTokenSecretRef: optional(secretKey('Secret with the token of the proxy. The default key is `token`.')),
    bootstrap: optional(
      object('Creates the proxy at its server, and deletes it there with this object.', {
        coderURL: text('URL of the server.', url),
        credentialsSecretRef: secretKey('Secret with an API token of an Owner. The default key is `token`.'),
        proxyName: optional(text('Name of the proxy. Default: the name of this object.', { maxLength: 128 })),
        displayName: optional(text('Name of the region for people.', { maxLength: 128 })),
        icon: optional(text('Icon of the region.', { maxLength: 2048 })),
        generatedTokenSecretName: optional(
          text('Secret to store the token of the proxy in. Default: `<name>-proxy-token`.', { maxLength: 253 }),
        ),
      }),
    ),
    derpOnly: optional(flag('Whether the proxies only relay connections.')),
    extraArgs: extraArgs('coder wsproxy server'),
    extraEnv,
    imagePullSecrets,
  },
  {
    rules: [
      {
        rule: 'has(self.proxySessionTokenSecretRef) || has(self.bootstrap)',
        message: 'set either proxySessionTokenSecretRef or bootstrap',
      },
      {
        rule: 'has(self.primaryAccessURL) || has(self.bootstrap)',
        message: 'proxySessionTokenSecretRef needs primaryAccessURL',
      },
    ],
  },
);

const status = object('What the operator found and did.', {
  observedGeneration: optional(whole('Generation of the spec that this status is about.')),
  phase: optional(text('`Pending` or `Ready`.')),
  conditions: optional(conditions),
  readyReplicas: optional(whole('Number of pods that are ready.')),
  registered: optional(flag('Whether a pod has registered at the server.')),
  proxyID: optional(text('The proxy that the operator created at the server.')),
  proxyServerURL: optional(text('The server at which the operator created it.')),
  proxyTokenSecretRef: optional(secretKey('Where the token of the proxy is.')),
});

export type WorkspaceProxySpec = Static<typeof spec>;
export type WorkspaceProxyStatus = Static<typeof status>;

export interface WorkspaceProxy extends KubeObject {
  spec: WorkspaceProxySpec;
  status?: WorkspaceProxyStatus;
}

export const WORKSPACE_PROXIES: CustomResource = {
  group: 'coder.com',
  version: 'v1alpha1',
  kind: 'CoderWorkspaceProxy',
  plural: 'coderworkspaceproxies',
  description: 'Runs workspace proxies.',
  spec,
  status,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'Registered', type: 'boolean', jsonPath: '.status.registered' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
