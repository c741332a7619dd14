import type { IncomingMessage, ServerResponse } from 'node:http';

/** Why an app is not shown, for a person to read. */
export interface Refusal {
  status: number;
  title: string;
  detail?: string | undefined;
  link?: { url: string; text: string } | undefined;
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Whether the request comes from a person's browser rather than a program. */
export function wantsHtml(request: IncomingMessage): boolean {
  return /\btext\/html\b/i.test(request.headers.accept ?? '');
}

/** Answers with a small page or, for programs, with the API's shape of errors. Does nothing if an answer has begun. */
export function refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const { status, title, detail, link } = refusal;
  const html = wantsHtml(request);
  const body = html ? page(refusal) : JSON.stringify({ message: title, ...(detail ? { detail } : {}) });
  response.writeHead(status, {
    'Content-Type': `${html ? 'text/html' : 'application/json'}; charset=utf-8`,
    'Content-Length': Buffer.byteLength(body),
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *",
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    // serialized by URL: template authors write some of them, and a header does not accept every character
    ...(link && !html && URL.canParse(link.url) ? { Link: `<${new URL(link.url).href}>; rel="help"` } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function page({ status, title, detail, link }: Refusal): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;color:#1c1c1c}
small{color:#767676}@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}a{color:#8ab4ff}}</style></head>
<body><small>${status}</small><h1>${escapeHtml(title)}</h1>
${detail ? `<p>${escapeHtml(detail)}</p>` : ''}
${link ? `<p><a href="${escapeHtml(link.url)}">${escapeHtml(link.text)}</a></p>` : ''}</body></html>
`;
}
