import { AppError } from '@ropewalk/kit';
import { AGENT_API, formatApiVersion } from '@ropewalk/wire/api-versions';

/**
 * Checks the version of the agent and tailnet API that a client asks for: our major version, and a minor version up to
 * ours. The texts are upstream's, because its clients print them.
 * @throws AppError `invalid`
 */
export function checkAgentApiVersion(text: string): void {
  const problem = problemOf(text);
  if (problem === undefined) return;
  throw new AppError('invalid', 'Unknown or unsupported API version', {
    validations: [{ field: 'version', detail: problem }],
  });
}

function problemOf(text: string): string | undefined {
  const parts = text.split('.');
  if (parts.length !== 2) return `invalid version string: ${text}`;
  const [major, minor] = parts as [string, string];
  if (!isNumber(major)) return `invalid major version: ${major}`;
  if (!isNumber(minor)) return `invalid minor version: ${minor}`;
  if (Number(major) > AGENT_API.major)
    return `server is at version ${formatApiVersion(AGENT_API)}, behind requested major version ${text}`;
  if (Number(major) < AGENT_API.major) return `version ${text} is no longer supported`;
  if (Number(minor) > AGENT_API.minor)
    return `server is at version ${formatApiVersion(AGENT_API)}, behind requested minor version ${text}`;
  return undefined;
}

const isNumber = (text: string) => /^\d{1,9}$/.test(text);
