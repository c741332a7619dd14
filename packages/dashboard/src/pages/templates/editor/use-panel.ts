import { useState } from 'react';

export type PanelTab = 'log' | 'problems' | 'resources' | 'parameters' | 'variables' | 'provisioning';

/** The panel below the text: its tab, and whether it is open. */
export function usePanel() {
  const [tab, setTab] = useState<PanelTab>('log');
  const [open, setOpen] = useState(true);
  return {
    tab,
    setTab,
    open,
    setOpen,
    show(next: PanelTab) {
      setTab(next);
      setOpen(true);
    },
  };
}

export type Panel = ReturnType<typeof usePanel>;
