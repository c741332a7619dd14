export { MessageBudget } from './budget.ts';
export * from './client.ts';
export { DrpcError, MAX_MESSAGE_BYTES } from './frames.ts';
export * from './server.ts';
