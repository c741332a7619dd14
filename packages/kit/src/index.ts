export * from './child.ts';
export * from './clock.ts';
export * from './duration.ts';
export * from './errors.ts';
export * from './log.ts';
export * from './names.ts';
export * from './retry.ts';
export * from './shutdown.ts';
