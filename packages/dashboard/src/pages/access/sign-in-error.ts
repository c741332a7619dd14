/** Why a sign-in at a provider failed. The server leaves it in a cookie for the sign-in page. */
export interface SignInError {
  message: string;
  detail?: string;
  /** Whether the detail is Markdown, written by the server's administrator. */
  markdown?: boolean;
}

const COOKIE = 'coder_sign_in_error';

/** Reads the error from the text of `document.cookie`. */
export function signInErrorIn(cookies: string): SignInError | undefined {
  const value = cookies
    .split('; ')
    .find((cookie) => cookie.startsWith(`${COOKIE}=`))
    ?.slice(COOKIE.length + 1);
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
export function forgetSignInError(): void {
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in all browsers
  document.cookie = `${COOKIE}=; Path=/login; Max-Age=0; SameSite=Lax`;
}
