import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { createCertificate } from './certificate.ts';

const validMs = 86_400_000;

test('makes an authority, and certificates that it signs', () => {
  const authority = createCertificate({ name: 'root', validMs });
  const root = new X509Certificate(authority.cert);
  assert.ok(root.ca);
  assert.ok(root.verify(root.publicKey));
  const made = createCertificate({ name: 'a', hosts: ['a.b.svc', 'other'], validMs, issuer: authority.authority });
  const leaf = new X509Certificate(made.cert);
  assert.ok(!leaf.ca);
  assert.ok(leaf.checkIssued(root) && leaf.verify(root.publicKey));
  assert.equal(leaf.checkHost('a.b.svc'), 'a.b.svc');
  assert.equal(leaf.checkHost('b.svc'), undefined);
  assert.ok(leaf.checkPrivateKey(createPrivateKey(made.key)));
  assert.ok(leaf.validFromDate < new Date() && leaf.validToDate > new Date(Date.now() + validMs - 60_000));
  assert.notEqual(leaf.serialNumber, root.serialNumber);
});
