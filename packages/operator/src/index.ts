export * from './kube/client.ts';
export * from './kube/connection.ts';
