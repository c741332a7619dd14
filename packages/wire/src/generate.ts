import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Generates src/gen from proto/: `node packages/wire/src/generate.ts`. npx downloads the compilers. They are not
 * dependencies of the project, since the output is committed and they are far larger than the project. The output is
 * JavaScript with declarations, because generated TypeScript has enums, which type stripping rejects.
 */
const buf = '@bufbuild/buf@1.75.0';
const plugin = '@bufbuild/protoc-gen-es@2.17.0';
const wire = join(import.meta.dirname, '..');

const scratch = mkdtempSync(join(tmpdir(), 'wire-generate-'));
try {
  const template = join(scratch, 'buf.gen.json');
  writeFileSync(
    template,
    JSON.stringify({
      version: 'v2',
      clean: true,
      plugins: [{ local: 'protoc-gen-es', out: join(wire, 'src/gen'), opt: ['target=js+dts', 'import_extension=js'] }],
    }),
  );
  const run = spawnSync(
    'npx',
    ['--yes', '-p', buf, '-p', plugin, 'buf', 'generate', '--template', template, join(wire, 'proto')],
    { cwd: scratch, stdio: 'inherit' },
  );
  if (run.error) throw run.error;
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
