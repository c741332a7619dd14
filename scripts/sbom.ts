// A bill of materials of an image or a release, as SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = dirname(import.meta.dirname);

export interface Part {
  name: string;
  version: string;
  license?: string;
  purl?: string;
  checksum?: { algorithm: 'SHA256' | 'SHA512'; checksumValue: string };
}

export interface Contents {
  name: string;
  /** Two documents with different contents must have different namespaces. A URN. */
  namespace: string;
  /** ISO 8601, in whole seconds. */
  created: string;
  /** The path of the script that writes the document. */
  tool: string;
  parts: readonly Part[];
}

/** The npm packages that the executables may contain. */
export function npmParts(): Part[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string; license?: string; integrity?: string; dev?: boolean; link?: boolean }>;
  };
  const parts = new Map<string, Part>();
  for (const [path, { version, license, integrity, dev, link }] of Object.entries(packages)) {
    const name = path.split('node_modules/').at(-1)!;
    if (!path.includes('node_modules/') || dev || link || !version) continue;
    const sha512 = /^sha512-(.+)$/.exec(integrity ?? '')?.[1];
    parts.set(`${name}@${version}`, {
      name,
      version,
      ...(license ? { license } : {}),
      purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      ...(sha512
        ? { checksum: { algorithm: 'SHA512', checksumValue: Buffer.from(sha512, 'base64').toString('hex') } }
        : {}),
    });
  }
  return [...parts.values()];
}

/** A program of this project. `sha256`: of its file, in hex. */
export const programPart = (name: string, version: string, sha256: string): Part => ({
  name,
  version,
  license: 'Apache-2.0',
  checksum: { algorithm: 'SHA256', checksumValue: sha256 },
});

export function spdx({ name, namespace, created, tool, parts }: Contents): object {
  const idOf = (at: number) => `SPDXRef-Package-${at}`;
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name,
    documentNamespace: namespace,
    creationInfo: { created, creators: [`Tool: ${tool}`] },
    packages: parts.map(({ name, version: of, license, purl, checksum }, at) => ({
      SPDXID: idOf(at),
      name,
      versionInfo: of,
      downloadLocation: 'NOASSERTION',
      filesAnalyzed: false,
      licenseConcluded: 'NOASSERTION',
      licenseDeclared: license && /^[A-Za-z0-9.+() -]+$/.test(license) ? license : 'NOASSERTION',
      copyrightText: 'NOASSERTION',
      ...(checksum ? { checksums: [checksum] } : {}),
      ...(purl
        ? { externalRefs: [{ referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: purl }] }
        : {}),
    })),
    relationships: parts.flatMap((_, at) => [
      { spdxElementId: 'SPDXRef-DOCUMENT', relationshipType: 'DESCRIBES', relatedSpdxElement: idOf(at) },
    ]),
  };
}
