export * from './address.ts';
export * from './box.ts';
export * from './derp/client.ts';
export * from './derp/frames.ts';
export * from './derp/relay.ts';
export * from './disco.ts';
export * from './keys.ts';
export * from './stun.ts';
