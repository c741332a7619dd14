export { VERSION } from '@platform/server/version';
