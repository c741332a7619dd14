// A bill of materials of an image, as SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DebianPackage } from './debian.ts';

const root = join(import.meta.dirname, '../..');

interface Part {
  name: string;
  version: string;
  license?: string;
  purl?: string;
  checksum?: { algorithm: 'SHA256' | 'SHA512'; checksumValue: string };
}

export interface Contents {
  version: string;
  architecture: string;
  created: string;
  packages: readonly DebianPackage[];
  /** Of the executable. */
  sha256: string;
  terraform: { version: string; sha256: string } | undefined;
}

/** The npm packages that the executable may contain. */
function npmParts(): Part[] {
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

export function spdx({ version, architecture, created, packages, sha256, terraform }: Contents): object {
  const parts: Part[] = [
    { name: 'coder', version, license: 'Apache-2.0', checksum: { algorithm: 'SHA256', checksumValue: sha256 } },
    ...(terraform
      ? [
          {
            name: 'terraform',
            version: terraform.version,
            license: 'BUSL-1.1',
            checksum: { algorithm: 'SHA256' as const, checksumValue: terraform.sha256 },
          },
        ]
      : []),
    ...packages.map((each) => ({
      name: each.name,
      version: each.version,
      purl: `pkg:deb/debian/${each.name}@${encodeURIComponent(each.version)}?arch=${each.architecture}`,
      checksum: { algorithm: 'SHA256' as const, checksumValue: each.sha256 },
    })),
    ...npmParts(),
  ];
  const idOf = (at: number) => `SPDXRef-Package-${at}`;
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `coder ${version} linux/${architecture}`,
    documentNamespace: `urn:sha256:${sha256}:${architecture}`,
    creationInfo: { created, creators: ['Tool: scripts/image/build.ts'] },
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
