export * from './address.ts';
export * from './box.ts';
export * from './keys.ts';
