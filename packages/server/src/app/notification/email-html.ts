import { escapeHtml } from './escape.ts';
import { markdownToHtml } from './markdown.ts';
import type { Rendered } from './render.ts';

const BUTTON =
  'display:inline-block;margin:0 8px 8px 0;padding:9px 16px;border-radius:6px;background:#4b4ad6;color:#ffffff;text-decoration:none;font-weight:500';

/** The page of an email. Its styles are inline, which mail programs keep. */
export function emailHtml({ title, body, actions }: Rendered, accessUrl: string): string {
  const buttons = actions
    .map(({ label, url }) => `<a href="${escapeHtml(url)}" style="${BUTTON}">${escapeHtml(label)}</a>`)
    .join('\n');
  const home = escapeHtml(accessUrl);
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title></head>
<body style="margin:0;padding:24px 12px;background:#f4f4f2;color:#1b1b1f;font:15px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<div style="max-width:560px;margin:0 auto;padding:28px;border:1px solid #e4e4e0;border-radius:10px;background:#ffffff">
<h1 style="margin:0 0 12px;font-size:19px;line-height:1.35">${escapeHtml(title)}</h1>
${markdownToHtml(body)}
${buttons ? `<p style="margin:20px 0 0">${buttons}</p>` : ''}
</div>
<p style="max-width:560px;margin:14px auto 0;color:#55555d;font-size:13px">Sent by <a href="${home}" style="color:#4342c4">${home}</a>.
<a href="${home}/settings/notifications" style="color:#4342c4">Choose which notifications you get</a>.</p>
</body>
</html>
`;
}
