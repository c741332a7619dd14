import { Counter, Gauge, type Registry } from 'prom-client';
import { observeAnswers } from '../app/outbound/provider-calls.ts';

const RATE_LIMIT = 'coderd_oauth2_external_requests_rate_limit';

/** Counts the calls of providers for sign-in and external accounts. Returns a function that ends it. */
export function createProviderMetrics(registry: Registry): () => void {
  const calls = new Counter({
    name: 'coderd_oauth2_external_requests_total',
    help: 'The number of requests to providers for sign-in and external accounts. status_code: 0 if no answer came.',
    labelNames: ['name', 'source', 'status_code'] as const,
    registers: [registry],
  });
  const gauge = (suffix: string, help: string) =>
    new Gauge({
      name: `${RATE_LIMIT}${suffix}`,
      help: `${help} From the latest answer of a provider that sends it, such as GitHub.`,
      labelNames: ['name', 'resource'] as const,
      registers: [registry],
    });
  const limit = gauge('', 'The number of requests that a period allows.');
  const remaining = gauge('_remaining', 'The number of requests that the period still allows.');
  const used = gauge('_used', 'The number of requests in the period.');
  const reset = gauge('_next_reset_unix', 'The end of the period, in seconds since 1970.');
  const resetIn = gauge('_reset_in_seconds', 'The time until the end of the period, in seconds.');
  return observeAnswers(({ name, source, status, headers }) => {
    calls.inc({ name, source, status_code: String(status) });
    const resource = headers?.get('x-ratelimit-resource');
    if (!headers || !resource) return;
    const number = (field: string) => Number(headers.get(`x-ratelimit-${field}`));
    const labels = { name, resource };
    limit.set(labels, number('limit'));
    remaining.set(labels, number('remaining'));
    used.set(labels, number('used'));
    reset.set(labels, number('reset'));
    resetIn.set(labels, Math.max(0, number('reset') - Date.now() / 1_000));
  });
}
