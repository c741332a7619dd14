export { VERSION } from '@platform/kit/version';
export type { BuiltinDaemonsInput } from './background/builtin-daemons.ts';
export { givenWithoutEffect } from './config/effect.ts';
export { type ConfigInput, type LoadedConfig, loadConfig } from './config/load.ts';
export { type OptionRow, parseOption } from './config/option.ts';
export { type Config, type OptionName, options } from './config/options.ts';
export type { FindBinary } from './http/binaries.ts';
export { createDashboard, type Dashboard, dashboardFolder } from './http/dashboard/build.ts';
export { type RunningServer, type ServerOptions, startServer } from './main.ts';
