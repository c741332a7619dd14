// The parts of the library that identity-provider.ts uses. The library ships no types.
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
    destroy(): Promise<void>;
  }
  export class Provider {
    constructor(issuer: string, configuration: object);
    readonly Client: { prototype: { redirectUriAllowed(uri: string): boolean } };
    readonly Grant: {
      new (of: { accountId: string; clientId: string }): Grant;
      find(id: string): Promise<Grant | undefined>;
    };
    on(event: 'grant.success', listener: (ctx: { oidc: { body?: { client_assertion?: string } } }) => void): this;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: { login: { accountId: string }; consent: object } | { error: string; error_description?: string },
    ): Promise<void>;
  }
  export default Provider;
}
