// Fields that several resources have.
import type { V1EnvVar, V1LocalObjectReference } from '@kubernetes/client-node';
import { choice, list, object, optional, podFields, text, texts, whole } from './schema.ts';

export const service = object('The Service in front of the pods.', {
  type: optional(
    choice('Type of the Service. Default: `ClusterIP`.', ['ClusterIP', 'NodePort', 'LoadBalancer'] as const),
  ),
  port: optional(whole('Port of the Service. Default: 80.', { minimum: 1, maximum: 65535 })),
  annotations: optional(texts('Annotations of the Service.')),
});

export const extraArgs = (command: string) => optional(list(`More arguments of \`${command}\`.`, text('An argument.')));

export const extraEnv = optional(podFields<V1EnvVar>('More environment variables.'));

export const imagePullSecrets = optional(podFields<V1LocalObjectReference>('Secrets to pull the image with.'));
