import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { AppError, errorText } from '@ropewalk/kit';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import type { Config } from '../config/options.ts';

/**
 * Sends a client certificate to servers that ask for one, such as identity providers and Git hosts, for all requests of
 * this process until the returned function is called.
 * @throws AppError `invalid` if the files cannot be used
 */
export function presentCertificate({
  tlsClientCertFile,
  tlsClientKeyFile,
}: Pick<Config, 'tlsClientCertFile' | 'tlsClientKeyFile'>): () => Promise<void> {
  if (tlsClientCertFile === '' || tlsClientKeyFile === '') {
    throw new AppError('invalid', '--tls-client-cert-file and --tls-client-key-file need each other: set both.');
  }
  const connect = (() => {
    try {
      const pair = { cert: readFileSync(tlsClientCertFile), key: readFileSync(tlsClientKeyFile) };
      createSecureContext(pair);
      return pair;
    } catch (err) {
      throw new AppError(
        'invalid',
        `Cannot use --tls-client-cert-file "${tlsClientCertFile}" with --tls-client-key-file "${tlsClientKeyFile}": ${errorText(err)}`,
        { cause: err },
      );
    }
  })();
  const before = getGlobalDispatcher();
  const agent = new Agent({ connect });
  setGlobalDispatcher(agent);
  return async () => {
    setGlobalDispatcher(before);
    await agent.destroy();
  };
}
