export * from './postgres.ts';
export * from './server.ts';
export * from './wait.ts';
