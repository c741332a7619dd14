// The checkout's command. The single executable runs start.ts instead, which is compiled into it.
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { homeFolder } from '@ropewalk/kit/home';

// A checkout has no build: each process would remove the types and compile again. This takes a third of a short command.
enableCompileCache(join(process.env['XDG_CACHE_HOME'] ?? join(homeFolder(), '.cache'), 'coder', 'compiled'));
await import('./start.ts');
