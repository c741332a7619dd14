import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { type Body, evaluate, fromJson, parseHcl } from '@ropewalk/hcl';
import { makeZip } from '@ropewalk/server/app/evaluate/zip';
import { parseAllDocuments } from 'yaml';

const root = dirname(import.meta.dirname);
const guide = readFileSync(join(root, 'docs/guides/registry-mirrors.md'), 'utf8');
const block = (kind: string) => new RegExp(`^\`\`\`${kind}\n(.*?)^\`\`\``, 'ms').exec(guide)![1]!;
const scratch = mkdtempSync(join(tmpdir(), 'mirrors-'));
after(() => rmSync(scratch, { recursive: true, force: true }));
const run = promisify(execFile);

const helm = process.env['HELM'] ?? '';
const needsHelm = { skip: existsSync(helm) ? false : 'HELM is not set: see scripts/build-helm.sh' };

test("the charts take images and Terraform's mirror from the guide's values", needsHelm, async () => {
  const values = join(scratch, 'mirrors.yaml');
  writeFileSync(values, block('yaml'));
  const env = { PATH: process.env['PATH'], HOME: scratch };
  for (const [chart, ...more] of [['coder'], ['coder-provisioner', '--set', 'provisionerDaemon.keySecretName=key']]) {
    const args = ['template', chart!, join(root, 'charts', chart!), '--values', values, ...more];
    const { stdout } = await run(helm, [...args, '--kube-version', '1.34.0'], { env, timeout: 60_000 });
    // biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes
    const objects = parseAllDocuments(stdout).map((doc) => doc.toJS() as any);
    const { spec } = objects.find((object) => object?.kind === 'Deployment').spec.template;
    const [container] = spec.containers;
    assert.equal(container.image, 'registry.example.com/coder/coder:v0.1.0');
    assert.deepEqual(spec.imagePullSecrets, [{ name: 'registry-account' }]);
    const config = container.env.find(({ name }: { name: string }) => name === 'TF_CLI_CONFIG_FILE').value;
    const mount = container.volumeMounts.find(({ name }: { name: string }) => name === 'terraform');
    assert.equal(config, `${mount.mountPath}/terraform.rc`);
    const volume = spec.volumes.find(({ name }: { name: string }) => name === 'terraform');
    assert.deepEqual(volume.configMap, { name: 'terraform-mirror' });
    assert.match(guide, new RegExp(`create configmap ${volume.configMap.name} .*--from-file=terraform.rc`));
  }
});

test("Terraform installs providers from the guide's mirror only", { timeout: 120_000 }, async (t) => {
  const [cert, key] = [join(scratch, 'cert.pem'), join(scratch, 'key.pem')];
  const names = ['-subj', '/CN=mirror', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', '-x509', ...made, ...names, '-days', '2'], { stdio: ['ignore', 'ignore', 'pipe'] });
  // the protocol of network mirrors, for one version of one provider
  const provider = '/providers/registry.terraform.io/kreuzwerker/docker';
  const { stdout: version } = await run('terraform', ['version', '-json']);
  const { platform } = JSON.parse(version) as { platform: string };
  const binary = { path: 'terraform-provider-docker_v9.8.7', data: Buffer.from('#!/bin/sh\n'), mode: 0o755 };
  const answers: Record<string, string | Buffer> = {
    [`${provider}/index.json`]: JSON.stringify({ versions: { '9.8.7': {} } }),
    [`${provider}/9.8.7.json`]: JSON.stringify({ archives: { [platform]: { url: 'docker.zip' } } }),
    [`${provider}/docker.zip`]: makeZip([binary]),
  };
  const mirror = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
    const body = answers[request.url!];
    response.writeHead(body ? 200 : 404, {
      'content-type': request.url!.endsWith('.json') ? 'application/json' : 'application/zip',
    });
    response.end(body);
  });
  mirror.listen(0, '127.0.0.1');
  await once(mirror, 'listening');
  t.after(() => {
    mirror.closeAllConnections();
    mirror.close();
  });
  const config = join(scratch, 'terraform.rc');
  const { port } = mirror.address() as AddressInfo;
  writeFileSync(config, block('hcl').replace('terraform.example.com', `127.0.0.1:${port}`));
  const init = async (source: string) => {
    writeFileSync(
      join(scratch, 'main.tf'),
      `terraform {\n  required_providers {\n    one = { source = "${source}" }\n  }\n}\n`,
    );
    const env = { PATH: process.env['PATH'], HOME: scratch, TF_CLI_CONFIG_FILE: config, SSL_CERT_FILE: cert };
    return run('terraform', ['init', '-no-color'], { cwd: scratch, env });
  };
  assert.match((await init('kreuzwerker/docker')).stdout, /Installed kreuzwerker\/docker v9\.8\.7/);
  await assert.rejects(init('hashicorp/null'), /provider registry.terraform.io\/hashicorp\/null was not found/);
});

/** The value of an attribute below blocks of a starter template, with these variables. */
function imageOf(template: string, path: string[], image_registry: string): unknown {
  const { body } = parseHcl(readFileSync(join(root, 'examples', template, 'main.tf'), 'utf8'), 'main.tf');
  const found = path.reduce<Body | undefined>(
    (inner, name) => inner?.blocks.find(({ type, labels }) => [type, ...labels].includes(name))?.body,
    body,
  );
  const image = found?.attributes.get('image');
  assert.ok(image, `${template} has no image at ${path.join('.')}`);
  const parameter = { image: { value: 'codercom/enterprise-base:ubuntu' } };
  const variables = { var: fromJson({ image_registry }), data: fromJson({ coder_parameter: parameter }) };
  return evaluate(image.value, { variables });
}

test('starter templates take the image from the registry of a variable', () => {
  for (const [template, path] of [
    ['docker', ['docker_container']],
    ['kubernetes', ['kubernetes_deployment_v1', 'spec', 'template', 'spec', 'container']],
  ] as const) {
    assert.equal(imageOf(template, [...path], ''), 'codercom/enterprise-base:ubuntu');
    const [, registry] = /--variable image_registry=(\S+)/.exec(guide)!;
    assert.equal(imageOf(template, [...path], registry!), `${registry}/codercom/enterprise-base:ubuntu`);
    assert.match(guide, new RegExp(`${registry}/codercom/enterprise-base:ubuntu`));
  }
});
