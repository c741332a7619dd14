// An OCI image layout: https://github.com/opencontainers/image-spec/blob/main/image-layout.md
import { createHash } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ensureDirectorySync } from '@ropewalk/kit';

const LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';

const digestOf = (data: string | Uint8Array) => `sha256:${createHash('sha256').update(data).digest('hex')}`;

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { os: string; architecture: string };
  annotations?: Record<string, string>;
}

export interface Layer {
  /** What the layer has, for the image's history. */
  what: string;
  tar: Uint8Array;
}

export interface Image {
  architecture: string;
  /** ISO 8601. */
  created: string;
  config: object;
  layers: readonly Layer[];
}

export interface Layout {
  addImage(image: Image): Descriptor;
  /** Writes the index of the images under a tag. Returns the digest of the index that lists each platform. */
  finish(images: readonly Descriptor[], tag: string): string;
}

export function createLayout(folder: string): Layout {
  ensureDirectorySync(join(folder, 'blobs/sha256'));
  const write = (path: string, data: string | Uint8Array) => {
    writeFileSync(join(folder, `${path}.part`), data);
    renameSync(join(folder, `${path}.part`), join(folder, path));
  };
  const addBlob = (mediaType: string, data: string | Uint8Array): Descriptor => {
    const digest = digestOf(data);
    write(`blobs/sha256/${digest.slice('sha256:'.length)}`, data);
    return { mediaType, digest, size: Buffer.byteLength(data) };
  };
  return {
    addImage({ architecture, created, config, layers }) {
      const blobs = layers.map(({ tar }) => addBlob(LAYER, gzipSync(tar, { level: 4 })));
      const details = {
        created,
        architecture,
        os: 'linux',
        config,
        rootfs: { type: 'layers', diff_ids: layers.map(({ tar }) => digestOf(tar)) },
        history: layers.map(({ what }) => ({ created, created_by: what })),
      };
      const manifest = {
        schemaVersion: 2,
        mediaType: MANIFEST,
        config: addBlob(CONFIG, JSON.stringify(details)),
        layers: blobs,
      };
      return { ...addBlob(MANIFEST, JSON.stringify(manifest)), platform: { os: 'linux', architecture } };
    },
    finish(images, tag) {
      const platforms = addBlob(INDEX, JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: images }));
      const named = { ...platforms, annotations: { 'org.opencontainers.image.ref.name': tag } };
      write('index.json', JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [named] }));
      write('oci-layout', JSON.stringify({ imageLayoutVersion: '1.0.0' }));
      return platforms.digest;
    },
  };
}
