import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import type { Service } from '../services/service.ts';
import type { Devcontainers } from './devcontainers.ts';

/**
 * `{service: 'containers', watch}`: sends the containers and dev containers as one line of JSON. With `watch` also after
 * each change, until the server ends the stream.
 */
export function containersService(devcontainers: Devcontainers): Service {
  return async ({ request, accept }) => {
    await devcontainers.refresh();
    const stream = accept();
    stream.on('error', () => {});
    stream.resume();
    const send = () => void stream.write(`${JSON.stringify(devcontainers.list())}\n`);
    send();
    if (request['watch'] !== true) {
      stream.end();
      return;
    }
    const stop = devcontainers.onChange(() => {
      // a reader that lags behind gets the newest list once it has read the last
      if (stream.writableNeedDrain) stream.once('drain', send);
      else send();
    });
    stream.once('end', () => stream.end());
    stream.once('close', stop);
  };
}

/** The outcome of a change, as one line of JSON. */
export interface ChangeAnswer {
  /** An error code of this platform. Absent if the change was accepted. */
  code?: string;
  message?: string;
}

/** `{service: 'devcontainer', action: 'recreate' | 'remove', id}`: changes one dev container. Answers with a ChangeAnswer. */
export function devcontainerService(devcontainers: Devcontainers): Service {
  const change = async ({ action, id }: Readonly<Record<string, unknown>>): Promise<ChangeAnswer> => {
    try {
      if (action === 'recreate') devcontainers.recreate(String(id));
      else if (action === 'remove') await devcontainers.remove(String(id));
      else throw new AppError('invalid', `Unknown action ${JSON.stringify(action)} for a dev container.`);
      return {};
    } catch (err) {
      return { code: err instanceof AppError ? err.code : 'unavailable', message: errorText(err) };
    }
  };
  return async ({ request, accept }) => {
    const stream: Duplex = accept();
    stream.on('error', () => {});
    stream.resume();
    stream.end(`${JSON.stringify(await change(request))}\n`);
  };
}
