export * from './names.ts';
export * from './provisioner-tags.ts';
