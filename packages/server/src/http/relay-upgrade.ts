/** What requests to a relay get that ask for no upgrade, with status 426. */
export const UPGRADE_REQUIRED = 'DERP requires connection upgrade\n';
