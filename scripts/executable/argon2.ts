// Provides the package that hashes passwords to the program.
import { join } from 'node:path';
import { cacheFolder, requireFrom, unpack } from './unpack.ts';

globalThis.PLATFORM_LOAD_ARGON2 = async () =>
  requireFrom(unpack('argon2', join(cacheFolder(), 'argon2')), '@node-rs/argon2');
