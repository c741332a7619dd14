terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    azurerm = {
      source = "hashicorp/azurerm"
    }
    tls = {
      source = "hashicorp/tls"
    }
  }
}

data "coder_parameter" "location" {
  name         = "location"
  display_name = "Location"
  description  = "Where the virtual machine runs."
  default      = "germanywestcentral"
  mutable      = false
  option {
    name  = "Frankfurt"
    value = "germanywestcentral"
  }
  option {
    name  = "Virginia"
    value = "eastus"
  }
  option {
    name  = "Singapore"
    value = "southeastasia"
  }
}

data "coder_parameter" "size" {
  name         = "size"
  display_name = "Size"
  description  = "The machine's cores and memory."
  default      = "Standard_B2s"
  mutable      = true
  option {
    name  = "2 cores, 4 GiB"
    value = "Standard_B2s"
  }
  option {
    name  = "2 cores, 8 GiB"
    value = "Standard_B2ms"
  }
  option {
    name  = "4 cores, 16 GiB"
    value = "Standard_B4ms"
  }
}

data "coder_parameter" "home_size" {
  name         = "home_size"
  display_name = "Home disk"
  description  = "The size of the disk for your home folder, in GiB."
  type         = "number"
  default      = 20
  mutable      = false
  validation {
    min = 10
    max = 512
  }
}

provider "azurerm" {
  features {}
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  tags = {
    coder-owner        = data.coder_workspace_owner.me.name
    coder-workspace    = data.coder_workspace.me.name
    coder-workspace-id = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "azurerm_resource_group" "workspace" {
  name     = local.name
  location = data.coder_parameter.location.value
  tags     = local.tags
}

resource "azurerm_virtual_network" "workspace" {
  name                = "network"
  address_space       = ["10.0.0.0/24"]
  location            = azurerm_resource_group.workspace.location
  resource_group_name = azurerm_resource_group.workspace.name
  tags                = local.tags
}

resource "azurerm_subnet" "workspace" {
  name                 = "internal"
  resource_group_name  = azurerm_resource_group.workspace.name
  virtual_network_name = azurerm_virtual_network.workspace.name
  address_prefixes     = ["10.0.0.0/29"]
}

resource "azurerm_network_interface" "workspace" {
  name                = "interface"
  location            = azurerm_resource_group.workspace.location
  resource_group_name = azurerm_resource_group.workspace.name
  tags                = local.tags
  ip_configuration {
    name                          = "internal"
    subnet_id                     = azurerm_subnet.workspace.id
    private_ip_address_allocation = "Dynamic"
  }
}

resource "azurerm_managed_disk" "home" {
  name                 = "home"
  location             = azurerm_resource_group.workspace.location
  resource_group_name  = azurerm_resource_group.workspace.name
  tags                 = local.tags
  storage_account_type = "StandardSSD_LRS"
  create_option        = "Empty"
  disk_size_gb         = data.coder_parameter.home_size.value
}

# Azure requires a key for the administrator. Nobody uses it: people connect through the agent.
resource "tls_private_key" "unused" {
  algorithm = "RSA"
  rsa_bits  = 4096
}

resource "azurerm_linux_virtual_machine" "workspace" {
  count                 = data.coder_workspace.me.start_count
  name                  = local.name
  location              = azurerm_resource_group.workspace.location
  resource_group_name   = azurerm_resource_group.workspace.name
  tags                  = local.tags
  size                  = data.coder_parameter.size.value
  network_interface_ids = [azurerm_network_interface.workspace.id]
  admin_username        = "azureuser"

  admin_ssh_key {
    username   = "azureuser"
    public_key = tls_private_key.unused.public_key_openssh
  }
  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "StandardSSD_LRS"
  }
  source_image_reference {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
    version   = "latest"
  }

  # the machine is new at every start, so cloud-init runs this with the token of this start
  custom_data = base64encode(<<-EOT
    #cloud-config
    disk_setup:
      /dev/disk/azure/scsi1/lun10:
        table_type: gpt
        layout: true
        overwrite: false
    fs_setup:
      - label: home
        filesystem: ext4
        device: /dev/disk/azure/scsi1/lun10-part1
        overwrite: false
    mounts:
      - [LABEL=home, /home/azureuser, ext4, "defaults,nofail", "0", "2"]
    write_files:
      - path: /run/agent-init.sh
        encoding: b64
        content: ${base64encode(coder_agent.main.init_script)}
    runcmd:
      - [chown, "azureuser:azureuser", /home/azureuser]
      - [sudo, -u, azureuser, env, "CODER_AGENT_TOKEN=${coder_agent.main.token}", sh, /run/agent-init.sh]
  EOT
  )
}

resource "azurerm_virtual_machine_data_disk_attachment" "home" {
  count              = data.coder_workspace.me.start_count
  managed_disk_id    = azurerm_managed_disk.home.id
  virtual_machine_id = azurerm_linux_virtual_machine.workspace[0].id
  lun                = 10
  caching            = "ReadWrite"
}
