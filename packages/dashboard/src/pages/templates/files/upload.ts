/** Uploads of template sources: archives, or a folder that the browser packs. */
import { client } from '../../../api/client.ts';
import { linksInTar, linksInZip } from './links.ts';
import { type TarFile, writeTar } from './tar.ts';

const TAR = 'application/x-tar';
const ZIP = 'application/zip';

/** Folders that tools write and that are not source. */
const IGNORED = /(^|\/)(\.terraform|\.git|node_modules)\//;

export interface Archive {
  name: string;
  type: typeof TAR | typeof ZIP;
  data: Uint8Array<ArrayBuffer>;
  /** The paths of links in it, which the server leaves out. */
  links: readonly string[];
}

/** Reads a chosen .tar, .tar.gz or .zip. @throws Error with a text for people */
export async function readArchive(file: File): Promise<Archive> {
  const data = new Uint8Array(await file.arrayBuffer());
  const name = file.name;
  if (data[0] === 0x50 && data[1] === 0x4b) return { name, type: ZIP, data, links: linksInZip(data) };
  if (data[0] === 0x1f && data[1] === 0x8b) {
    try {
      const plain = new Blob([data]).stream().pipeThrough(new DecompressionStream('gzip'));
      const unpacked = new Uint8Array(await new Response(plain).arrayBuffer());
      return { name, type: TAR, data: unpacked, links: linksInTar(unpacked) };
    } catch {
      throw new Error(`"${name}" cannot be unpacked. Pack the template again.`);
    }
  }
  if (new TextDecoder().decode(data.subarray(257, 262)) === 'ustar')
    return { name, type: TAR, data, links: linksInTar(data) };
  throw new Error(`"${name}" is neither a tar nor a zip archive. Choose a .tar, .tar.gz or .zip file.`);
}

/** Packs a chosen folder. Paths are relative to it. @throws Error with a text for people */
export async function packFolder(files: Iterable<File>): Promise<Archive> {
  const all: TarFile[] = [];
  let name = 'folder';
  for (const file of files) {
    const [folder = '', ...parts] = file.webkitRelativePath.split('/');
    const path = parts.join('/');
    name = folder || name;
    if (IGNORED.test(path) || /\.tfstate(\.backup)?$/.test(path)) continue;
    all.push({ path, data: new Uint8Array(await file.arrayBuffer()), mode: path.endsWith('.sh') ? 0o755 : 0o644 });
  }
  if (!all.some(({ path }) => /^[^/]+\.tf(\.json)?$/.test(path)))
    throw new Error(`"${name}" contains no Terraform files. Choose the folder with main.tf.`);
  return { name, type: TAR, data: writeTar(all), links: [] };
}

/** Stores an archive on the server and returns its id. */
export const upload = ({ type, data }: Pick<Archive, 'type' | 'data'>): Promise<string> => client.upload(data, type);

export const uploadTar = (data: Uint8Array<ArrayBuffer>): Promise<string> => upload({ type: TAR, data });

/** Stores files on the server and returns the id of their archive. */
export const uploadFiles = (files: readonly TarFile[]): Promise<string> => uploadTar(writeTar(files));

/** A template name made from a file's or a starter's name. */
export function templateName(text: string): string {
  return text
    .replace(/\.(tar\.gz|tgz|tar|zip)$/i, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 32)
    .replace(/^-|-$/g, '');
}

/** The name, with a number if a template has it. */
export function freeName(name: string, used: ReadonlySet<string>): string {
  if (!used.has(name)) return name;
  let number = 2;
  while (used.has(`${name}-${number}`)) number++;
  return `${name}-${number}`;
}
