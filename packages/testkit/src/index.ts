export * from './agent.ts';
export * from './person.ts';
export * from './postgres.ts';
export * from './responsive.ts';
export * from './server.ts';
export * from './template.ts';
export * from './wait.ts';
export * from './workspace.ts';
