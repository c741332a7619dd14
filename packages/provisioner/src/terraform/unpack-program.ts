import { AppError } from '@ropewalk/kit';

const PROGRAMS = ['terraform', 'tofu', 'terraform.exe', 'tofu.exe'];
/** The maximum number of bytes of an unpacked program. */
const MAX_UNPACKED = 1 << 30;

/**
 * The program in a zip of an engine.
 * @param name the archive's name in errors
 * @throws AppError `unavailable` if the archive does not contain exactly one program terraform or tofu
 */
export async function unpackProgram(archive: Uint8Array, name: string): Promise<Uint8Array> {
  // it computes tables while it loads, and most daemons find an installed program
  const { unzipSync } = await import('fflate');
  const files = unzipSync(archive, {
    filter: (file) => {
      if (!PROGRAMS.includes(file.name)) return false;
      if (file.originalSize <= MAX_UNPACKED) return true;
      throw new AppError('unavailable', `${file.name} in ${name} has more than ${MAX_UNPACKED} bytes.`);
    },
  });
  const [program, ...more] = Object.values(files);
  if (program && more.length === 0) return program;
  throw new AppError('unavailable', `The archive ${name} must contain one program terraform or tofu.`);
}
