/** The level of the published platform that these programs are compatible with, and our own version as build metadata. */
export const VERSION = 'v2.25.0+platform.0.1.0';
