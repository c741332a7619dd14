// The part of the executable that hashes passwords.
import './argon2.ts';
import '../../packages/server/src/app/hashing/entry.ts';
