// What clients find out by themselves: the endpoints (RFC 8414), and which server gives tokens for a resource (RFC 9728).

import { MCP_PATH } from '@ropewalk/contract';
import { TOKEN_SCOPES } from '@ropewalk/contract/token-scopes';
import type { Services } from '../context/context.ts';
import { isRegistrationOpen } from './settings.ts';

/** What the tools of the MCP server need. Clients ask for it, so that they get no more. */
const MCP_SCOPES = [
  'coder:workspaces.create',
  'coder:workspaces.operate',
  'coder:workspaces.delete',
  'coder:workspaces.access',
  'coder:templates.build',
  'coder:templates.author',
];

const RESOURCE_PLACE = '/.well-known/oauth-protected-resource';

/** `/.well-known/oauth-authorization-server` */
export async function serverMetadata(services: Services): Promise<object> {
  const { accessUrl } = services;
  return {
    issuer: accessUrl,
    authorization_endpoint: `${accessUrl}/oauth2/authorize`,
    token_endpoint: `${accessUrl}/oauth2/tokens`,
    ...((await isRegistrationOpen(services)) ? { registration_endpoint: `${accessUrl}/oauth2/register` } : {}),
    revocation_endpoint: `${accessUrl}/oauth2/revoke`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    scopes_supported: [...TOKEN_SCOPES.keys()],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
    revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
    authorization_response_iss_parameter_supported: true,
  };
}

/**
 * `/.well-known/oauth-protected-resource`, and below it for a part of this server.
 * @param path of the resource, such as `/api/v2`. Empty: the whole server
 */
export function resourceMetadata({ accessUrl }: Pick<Services, 'accessUrl'>, path: string): object {
  return {
    resource: `${accessUrl}${path}`,
    authorization_servers: [accessUrl],
    scopes_supported: path === MCP_PATH ? MCP_SCOPES : [...TOKEN_SCOPES.keys()],
    bearer_methods_supported: ['header', 'query'],
  };
}

/** The address of the metadata of a resource, which answers without a valid token name. */
export const resourceMetadataUrl = ({ accessUrl }: Pick<Services, 'accessUrl'>, path = ''): string =>
  `${accessUrl}${RESOURCE_PLACE}${path}`;
