"""voiceid: on-device voice authentication.

Audio goes in; one typed decision and, only on acceptance, one signed envelope of discrete speech units comes out.
"""

__version__ = "0.1.0"
