import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '../app/context/context.ts';
import { RequestContext } from './request-context.ts';

const raw = new EventEmitter();
const request = { id: 'one', headers: { 'user-agent': 'test' } } as FastifyRequest;
const make = (services: object) =>
  new RequestContext(services as Services, { actor: { kind: 'none' }, ip: '192.0.2.1' }, request, {
    raw,
  } as unknown as FastifyReply);

test('a copy of a context has every service and what is known of the request', () => {
  const services = { sql: () => {}, version: '1', oneMore: 'later' };
  assert.deepEqual(
    { ...make(services) },
    { ...services, actor: { kind: 'none' }, requestId: 'one', ip: '192.0.2.1', userAgent: 'test' },
  );
});

test('aborts its signal when the connection closes', () => {
  const ctx = make({});
  const { signal } = ctx;
  assert.equal(signal.aborted, false);
  raw.emit('close');
  assert.equal(signal.reason.code, 'canceled');
  assert.equal(ctx.signal, signal);
});
