import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { IconButton } from './button.tsx';
import { cx } from './classes.ts';
import { toast } from './toast.tsx';

/** Copies text. Without the clipboard's permission or a secure page, it says so. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // pages over plain HTTP have no clipboard: the old way works there
    const area = document.createElement('textarea');
    area.value = text;
    area.style.position = 'fixed';
    area.style.opacity = '0';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    if (!copied)
      toast({
        tone: 'bad',
        title: 'The browser does not permit copying.',
        detail: 'Select the text and copy it yourself.',
      });
    return copied;
  }
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <>
      <IconButton
        icon={copied ? Check : Copy}
        label={copied ? 'Copied' : label}
        size="sm"
        onClick={() => void copyText(text).then(setCopied)}
      />
      <span className="sr-only" aria-live="polite">
        {copied && 'Copied'}
      </span>
    </>
  );
}

/** A command or a value to copy, in one line. */
export function CodeLine({ code, label, wrap = false }: { code: string; label?: string; wrap?: boolean }) {
  return (
    <div className="flex min-w-0 items-center gap-2 rounded-md border border-line bg-sunken py-1 pr-1 pl-3">
      <code
        // keyboards scroll it
        tabIndex={wrap ? undefined : 0}
        className={cx('min-w-0 flex-1 font-mono text-sm', wrap ? 'break-all py-0.5' : 'overflow-x-auto whitespace-pre')}
      >
        {code}
      </code>
      <CopyButton text={code} {...(label ? { label } : {})} />
    </div>
  );
}

/** Several lines to copy. */
export function CodeBlock({ code, label }: { code: string; label?: string }) {
  return (
    <div className="relative rounded-md border border-line bg-sunken">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboards scroll it */}
      <pre tabIndex={0} className="overflow-x-auto py-2.5 pr-10 pl-3 font-mono text-sm">
        {code}
      </pre>
      <div className="absolute top-1 right-1 rounded-md bg-sunken">
        <CopyButton text={code} {...(label ? { label } : {})} />
      </div>
    </div>
  );
}
