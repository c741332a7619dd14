/** Why a way to a provider and back failed. The server leaves it in a cookie for the page that shows it. */
export interface SignInError {
  message: string;
  detail?: string;
  /** Whether the detail is Markdown, written by the server's administrator. */
  markdown?: boolean;
}

/** The cookie of each such page. */
const COOKIES = {
  '/login': 'coder_sign_in_error',
  '/external-auth': 'coder_external_auth_error',
} as const;
export type ErrorPath = keyof typeof COOKIES;

/** Reads the error from the text of `document.cookie`. */
export function signInErrorIn(cookies: string, path: ErrorPath = '/login'): SignInError | undefined {
  const name = `${COOKIES[path]}=`;
  const value = cookies
    .split('; ')
    .find((cookie) => cookie.startsWith(name))
    ?.slice(name.length);
  if (!value) return undefined;
  try {
    const { message, detail, markdown } = JSON.parse(decodeURIComponent(value)) as Record<string, unknown>;
    if (typeof message !== 'string' || message === '') return undefined;
    return { message, ...(typeof detail === 'string' ? { detail } : {}), markdown: markdown === true };
  } catch {
    return undefined;
  }
}

/** Forgets the error, so that the page shows it once. */
export function forgetSignInError(path: ErrorPath = '/login'): void {
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in all browsers
  document.cookie = `${COOKIES[path]}=; Path=${path}; Max-Age=0; SameSite=Lax`;
}
